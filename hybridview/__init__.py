"""hybridview: SQL views on Delta Lake, kept up to date."""
