"""Models from data."""
