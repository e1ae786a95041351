SELECT b.broker_id, sum(a.volume - b.volume) AS axfinder
FROM bids b JOIN asks a ON b.broker_id = a.broker_id
WHERE a.price - b.price > 10 OR b.price - a.price > 10
GROUP BY b.broker_id
