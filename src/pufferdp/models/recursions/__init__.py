"""Recursions along a series that models and fits share."""
