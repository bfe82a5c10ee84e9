"""A series flipped record by record."""
