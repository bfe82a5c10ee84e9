"""Pure mathematics, model to number: how much one record shows in others and in an output."""

from __future__ import annotations
