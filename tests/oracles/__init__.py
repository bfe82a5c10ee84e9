"""Brute force: slow, literal, independent of src, shared by every test."""
