SELECT x.broker_id, sum(x.volume * x.price * y.volume * y.price * 0.5) AS bsv
FROM bids x JOIN bids y ON x.broker_id = y.broker_id
GROUP BY x.broker_id
