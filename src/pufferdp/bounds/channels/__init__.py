"""What flipping record by record leaks, and the best channels."""
