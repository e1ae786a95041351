"""Delta rules, one operator per file; `derive` hands a rule the changes of its inputs."""
