"""Budgets that survive crashes and races: what was spent on a data set, kept in SQLite or PostgreSQL."""
