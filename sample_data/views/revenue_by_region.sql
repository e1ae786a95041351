-- Revenue per region and month of paid and shipped orders.
-- year() and month() rather than date_trunc(), whose result in Spark is a timestamp, which would
-- depend on the time zone of the session.
CREATE MATERIALIZED VIEW revenue_by_region
COMMENT 'Revenue of paid and shipped orders per region'
AS SELECT
  c.region,
  year(o.ordered_on) AS order_year,
  month(o.ordered_on) AS order_month,
  sum(i.amount) AS revenue,
  count(*) AS item_count
FROM customers c
JOIN orders o ON o.customer_id = c.id
JOIN order_items i ON i.order_id = o.id
WHERE o.status IN ('paid', 'shipped')
GROUP BY c.region, year(o.ordered_on), month(o.ordered_on)
