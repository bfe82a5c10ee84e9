"""What any mechanism leaks, proved by attack."""
