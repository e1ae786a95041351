"""The warm engine: a local Spark Connect server that stays up between two commands."""
