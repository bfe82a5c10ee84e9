"""Signatures: a certificate that comes from somebody, and the same one changed, taken over or signed by another."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import pufferdp
from pufferdp.basics.errors import ParameterError
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.signatures import _SMALL_ORDER, Signer

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture(scope="module")
def certificate() -> dict[str, Any]:
    frame = pl.DataFrame({"state": ["rest", "active", "rest"]})
    made = pufferdp.release(frame, model=CHAIN, column="state", query="count:rest", epsilon=1)
    return made.certificate.to_dict()


def test_a_signature_holds_for_its_certificate_and_its_key(tmp_path: Path, certificate: dict[str, Any]) -> None:
    (private, public), (_, stranger) = keys(tmp_path, "hospital"), keys(tmp_path, "stranger")
    signature = Signer(private).sign(certificate)
    found = pufferdp.verify(certificate, signature=signature, signer=public)
    assert found.valid
    assert found.signed_by == pufferdp.verify(certificate, signature=signature).signed_by is not None
    other = pufferdp.verify(certificate, signature=signature, signer=stranger)
    assert not other.valid
    assert "and not with the one in" in other.problems[0]
    unsigned = pufferdp.verify(certificate, signer=public)
    assert not unsigned.valid
    assert "is not signed" in unsigned.problems[0]
    assert pufferdp.verify(certificate).signed_by is None


def test_a_forged_certificate_that_is_whole_is_not_the_signers(tmp_path: Path, certificate: dict[str, Any]) -> None:
    (private, public), (thief, _) = keys(tmp_path, "hospital"), keys(tmp_path, "thief")
    signature = Signer(private).sign(certificate)
    forged = copy.deepcopy(certificate)
    forged["data"]["column"] = "another"
    forged["sha256"] = content_hash(forged)
    assert pufferdp.verify(forged).valid  # whole in itself: nobody can tell the name of a column
    assert not pufferdp.verify(forged, signature=signature, signer=public).valid
    assert not pufferdp.verify(forged, signature=signature).valid
    again = Signer(thief).sign(forged)
    assert pufferdp.verify(forged, signature=again).valid
    assert not pufferdp.verify(forged, signature=again, signer=public).valid
    assert not pufferdp.verify(forged, signature={**again, "public_key": signature["public_key"]}, signer=public).valid


@pytest.mark.parametrize(
    "signature",
    [
        "",
        [],
        {},
        {"algorithm": "none", "public_key": "00" * 32, "signature": "00" * 64},
        {"algorithm": "ed25519", "public_key": "00" * 31, "signature": "00" * 64},
        {"algorithm": "ed25519", "public_key": "zz" * 32, "signature": "00" * 64},
        {"algorithm": "ed25519", "public_key": 1, "signature": None},
        {"algorithm": "ed25519", "public_key": "00" * 32, "signature": "ff" * 64},
        {"algorithm": "ed25519", "public_key": "00" * 32, "signature": "00" * 64, "more": 1},
    ],
)
def test_what_is_no_signature_is_a_problem(certificate: dict[str, Any], signature: object) -> None:
    found = pufferdp.verify(certificate, signature=signature)
    assert not found.valid
    assert "signature" in found.problems[0]


def small_order_points() -> list[bytes]:
    """Every encoding of a point whose order divides 8, by the group distribution of RFC 8032."""
    p = 2**255 - 19
    d, root = -121665 * pow(121666, -1, p) % p, pow(2, (p - 1) // 4, p)

    def point(y: int) -> tuple[int, int] | None:
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
        x = pow(square, (p + 3) // 8, p)
        x = x if x * x % p == square else x * root % p
        return (x, y) if x * x % p == square else None

    def double(at: tuple[int, int]) -> tuple[int, int]:
        x, y = at
        k = d * x * x * y * y % p
        return 2 * x * y * pow(1 + k, -1, p) % p, (y * y + x * x) * pow(1 - k, -1, p) % p

    for y in _SMALL_ORDER:
        at = point(y)
        assert at is not None
        assert double(double(double(at))) == (0, 1)
    # There are 8 such points, with 5 different y; 0 and 1 can also be written as p and p + 1.
    written = [*_SMALL_ORDER, p, p + 1]
    return [(y | sign << 255).to_bytes(32, "little") for y in written for sign in (0, 1)]


def test_a_key_of_small_order_signs_nothing(certificate: dict[str, Any]) -> None:
    """Its signatures hold for any text: one of zeros and the neutral element was taken for a signature."""
    neutral = (1).to_bytes(32, "little")
    forged = {"algorithm": "ed25519", "signature": (neutral + bytes(32)).hex()}
    held = Ed25519PublicKey.from_public_bytes(neutral)
    held.verify(bytes.fromhex(forged["signature"]), b"any text")  # the library takes it
    keys = small_order_points()
    assert len(keys) == 14
    for key in keys:
        found = pufferdp.verify(certificate, signature={**forged, "public_key": key.hex()})
        assert found.signed_by is None
        assert any("a point of small order" in problem for problem in found.problems)


def test_what_is_no_key_is_refused_without_showing_it(tmp_path: Path) -> None:
    wrong = {
        "missing": None,
        "text": b"secret words",
        "curve": ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        "locked": ed25519.Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
        ),
        "public": keys(tmp_path, "a")[1].read_bytes(),
    }
    for name, content in wrong.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ParameterError, match=r"cannot be read|holds no private|locked with a password") as error:
            Signer(path)
        assert "secret words" not in str(error.value)
