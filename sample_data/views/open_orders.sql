-- Items of the orders that are still open. A bag: items stored twice appear twice.
CREATE MATERIALIZED VIEW open_orders
COMMENT 'Items of open orders'
AS SELECT
  o.id AS order_id,
  o.customer_id,
  o.ordered_on,
  i.product_id,
  i.quantity,
  i.amount
FROM orders o
JOIN order_items i ON i.order_id = o.id
WHERE o.status = 'open'
