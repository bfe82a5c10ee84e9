"""What people start: the command line, the local page, the demo."""
