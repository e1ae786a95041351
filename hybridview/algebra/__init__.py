"""Logical plans as pure data."""
