"""What a release gives away in practice: attackers, how often they are right, and what that proves."""

from __future__ import annotations
