"""What a store can do, one operation per file; `Store` is their public face."""
