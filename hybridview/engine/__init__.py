"""Refresh plans -> tables. The only part that imports Spark; it sends SQL text."""
