"""SQL text -> algebra."""
