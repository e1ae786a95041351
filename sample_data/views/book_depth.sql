-- What each broker offers on each side of the order book.
CREATE MATERIALIZED VIEW book_depth
COMMENT 'Value and number of bids and asks per broker'
AS SELECT
  broker_id,
  side,
  sum(price * volume) AS total_value,
  count(*) AS quote_count
FROM (
  SELECT broker_id, 'bid' AS side, price, volume FROM bids
  UNION ALL
  SELECT broker_id, 'ask' AS side, price, volume FROM asks
) AS quotes
GROUP BY broker_id, side
