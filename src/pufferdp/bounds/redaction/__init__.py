"""What a redacted series leaks, and the best redactions."""
