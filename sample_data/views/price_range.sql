-- Prices of the active products per category.
CREATE MATERIALIZED VIEW price_range
COMMENT 'Lowest, highest and average price of active products per category'
AS SELECT
  category,
  min(price) AS lowest_price,
  max(price) AS highest_price,
  avg(price) AS average_price,
  count(*) AS product_count
FROM products
WHERE active
GROUP BY category
