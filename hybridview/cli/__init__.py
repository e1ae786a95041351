"""The command line: thin commands, and rendering."""
