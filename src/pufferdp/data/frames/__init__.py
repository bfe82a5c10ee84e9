"""Frames that are in memory already."""
