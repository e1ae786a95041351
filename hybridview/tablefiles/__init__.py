"""Stored tables, read and changed without Spark: for small changes, a MERGE costs too much."""
