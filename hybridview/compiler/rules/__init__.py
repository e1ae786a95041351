"""Delta rules, one operator per file. A rule never recurses: `derive` hands it its inputs' changes."""
