"""What ``pufferdp demo`` shows: a simulated week of one wearer's activity, and the chain it was drawn from."""

from __future__ import annotations
