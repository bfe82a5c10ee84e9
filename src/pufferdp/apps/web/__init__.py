"""The local page (extra ``web``): it shows what the library computes, and computes nothing of its own."""

from __future__ import annotations
