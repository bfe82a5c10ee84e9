"""Mechanisms that can be audited: ours, other libraries', functions, commands."""
