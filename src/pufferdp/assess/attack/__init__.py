"""Attackers on sanitised series, and how often they are right."""
