SELECT x.broker_id, sum(x.volume * x.price - y.volume * y.price) AS bsp
FROM bids x JOIN bids y ON x.broker_id = y.broker_id
WHERE x.t > y.t
GROUP BY x.broker_id
