"""What is said about each result, one file a kind."""
