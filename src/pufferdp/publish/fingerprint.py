"""Was this model fitted on this very data? A keyed digest tells, and tells nothing else to anyone without the key.

The key is a secret made once and kept on the machine (``PUFFERDP_HOME``, or the user's configuration folder). Without
it the digest of a small table of counts could be guessed; with it only this machine can compare.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from typing import Any

from pufferdp.basics.errors import DataError
from pufferdp.basics.files import canonical_json
from pufferdp.basics.places import home_folder


def data_digest(counts: dict[str, int]) -> dict[str, str]:
    """A keyed digest of how often each state occurs, with the name of the key."""
    key = _secret()
    content = canonical_json({state: n for state, n in counts.items() if n})
    return {"digest": hmac.new(key, content.encode(), "sha256").hexdigest(), "key": _name(key)}


def fitted_warning(fitted: dict[str, Any] | None, counts: dict[str, int], charged: bool = False) -> str | None:
    """What a certificate must say about where its model came from, if anything.

    A private fit has no digest but a DP loss; ``charged`` says that the ledger has counted it.
    """
    if fitted and "dp_epsilon" in fitted and not charged:
        return (
            f"the model was fitted with a DP loss of {fitted['dp_epsilon']:g}; if it was fitted on this data, that "
            "loss counts as a release too: keep a ledger"
        )
    if not fitted or "digest" not in fitted:
        return None
    ours = data_digest(counts)
    if fitted.get("key") != ours["key"]:
        return "the model was fitted on another machine; if it was fitted on this data, the promise is weaker"
    if hmac.compare_digest(str(fitted["digest"]), ours["digest"]):
        return (
            "the model was fitted on the very data released here: it is part of what leaks, and the promise is weaker"
        )
    return None


def _name(key: bytes) -> str:
    return hashlib.sha256(b"pufferdp key name" + key).hexdigest()[:16]


def _secret() -> bytes:
    path = home_folder() / "secret"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            # O_EXCL: of two processes that start at once, one makes the secret and the other reads it.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "w") as out:
                out.write(secrets.token_hex(32))
                out.flush()
                os.fsync(out.fileno())
        text = path.read_text().strip()
        if len(text) != 64:
            raise DataError(f"the secret in {str(path)!r} is damaged; move it away and a new one is made")
        return bytes.fromhex(text)
    except OSError as error:
        raise DataError(
            f"the secret for data digests cannot be kept at {str(path)!r} ({error.strerror}); "
            "set PUFFERDP_HOME to a folder that can be written"
        ) from None
    except ValueError:
        raise DataError(f"the secret in {str(path)!r} is damaged; move it away and a new one is made") from None
