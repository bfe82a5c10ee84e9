"""What additive noise leaks, exactly."""
