-- The ten customers with the highest revenue. The id breaks ties, so the ten are always the same.
-- ORDER BY with LIMIT has no delta rule yet: this view is recomputed.
CREATE MATERIALIZED VIEW top_customers
COMMENT 'The ten customers with the highest revenue'
AS SELECT
  c.id AS customer_id,
  c.name,
  sum(i.amount) AS revenue
FROM customers c
JOIN orders o ON o.customer_id = c.id
JOIN order_items i ON i.order_id = o.id
WHERE o.status IN ('paid', 'shipped')
GROUP BY c.id, c.name
ORDER BY revenue DESC NULLS LAST, customer_id
LIMIT 10
