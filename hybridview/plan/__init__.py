"""Programs and decisions -> a refresh plan: steps as data, no side effects."""
