"""Facts and costs -> a decision with its reason."""
