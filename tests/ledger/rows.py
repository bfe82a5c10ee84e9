"""Certificates that name a row of a ledger which is not theirs."""

from __future__ import annotations

import copy
from typing import Any

from pufferdp import verify
from pufferdp.publish.certificate import content_hash


def assert_other_rows_are_found_out(raw: dict[str, Any], other: dict[str, Any]) -> None:
    """Neither a changed row nor that of another release is taken for the release's own, however well it is sealed."""
    assert verify(raw).valid
    for key, value in [("position", 7), ("previous", "0" * 64), ("head", "0" * 64), ("charged", "2020-01-01")]:
        changed = copy.deepcopy(raw)
        changed["ledger"][key] = value
        changed["sha256"] = content_hash(changed)
        assert not verify(changed).valid, key
    changed = {**raw, "ledger": other["ledger"]}
    changed["sha256"] = content_hash(changed)
    assert not verify(changed).valid
