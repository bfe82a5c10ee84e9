"""Attackers on privatised series, and how often they are right."""
