"""What people look at: tables for a terminal, figures for files."""

from __future__ import annotations
