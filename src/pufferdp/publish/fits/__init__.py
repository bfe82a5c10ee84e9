"""Fits of models to data: proposals, private fits, checks and their certificates."""
