"""Private transition flows."""
