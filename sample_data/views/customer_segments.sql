-- Which segments of customers exist in which region.
CREATE MATERIALIZED VIEW customer_segments
COMMENT 'Segments present in each region'
AS SELECT DISTINCT region, segment
FROM customers
