-- Regions by their strong months: a view over the view revenue_by_region.
CREATE MATERIALIZED VIEW big_regions
COMMENT 'Number and revenue of the strong months of each region'
AS SELECT
  region,
  count(*) AS strong_months,
  sum(revenue) AS strong_revenue
FROM revenue_by_region
WHERE revenue >= 50000
GROUP BY region
