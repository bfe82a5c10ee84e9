"""Priors about how records are generated, and classes of them. A model's module is loaded when it is named."""
