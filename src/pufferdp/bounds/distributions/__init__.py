"""Distributions of answers, and how far apart two of them are."""
