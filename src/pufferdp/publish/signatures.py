"""Who signed a certificate: Ed25519 over its canonical bytes, by the ``cryptography`` library, an extra.

A certificate proves that its numbers follow from what it states. It does not prove who stated it: anybody can make one
that is whole in itself. A signature ties it to a key, and the owner of that key is its origin.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.errors import CertificateError, ParameterError
from pufferdp.basics.extras import install_advice
from pufferdp.basics.files import canonical_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM: Final = "ed25519"
_CONTEXT: Final = b"pufferdp-signature/1\n"
"""Goes before what is signed, so that no signature made for something else fits."""
_PRIME: Final = 2**255 - 19
_ORDER_EIGHT: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER: Final = (0, 1, _PRIME - 1, _ORDER_EIGHT, _PRIME - _ORDER_EIGHT)
"""The y of every point whose order divides 8 (RFC 8032): a key that is one of them signs everything, with no secret."""
Key = str | os.PathLike[str]
"""A file with a key in PEM, as OpenSSL writes it."""


class Signer:
    """A private key that signs certificates. It is read before anything is charged."""

    def __init__(self, key: Key) -> None:
        self._key: Ed25519PrivateKey = _private_key(key)

    def __repr__(self) -> str:
        return "Signer()"

    def sign(self, certificate: Mapping[str, Any]) -> dict[str, str]:
        """The signature of a certificate, as it stands beside it in a file."""
        return {
            "algorithm": ALGORITHM,
            "public_key": _raw(self._key.public_key()).hex(),
            "signature": self._key.sign(_signed_bytes(certificate)).hex(),
        }


def signer_of(certificate: Mapping[str, Any], signature: object, signer: Key | None = None) -> str:
    """The fingerprint of the key that signed a certificate; refuses a signature that does not hold.

    With ``signer``, a file with a public key, it must be that key.
    """
    check_installed()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public_key, signed = _parts(signature)
    if signer is not None and _raw(read_public_key(signer)) != public_key:
        raise CertificateError(
            f"the certificate was signed with the key {fingerprint(public_key)}, and not with the one in "
            f"{os.fspath(signer)!r}, {fingerprint(_raw(read_public_key(signer)))}"
        )
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signed, _signed_bytes(certificate))
    except (InvalidSignature, ValueError):
        raise CertificateError("the signature does not hold: the certificate was changed after it was signed") from None
    return fingerprint(public_key)


def fingerprint(public_key: bytes) -> str:
    """A short name of a public key that two people can compare."""
    digest = hashlib.sha256(public_key).hexdigest()[:32]
    return ":".join(digest[n : n + 4] for n in range(0, len(digest), 4))


def read_public_key(path: Key) -> Ed25519PublicKey:
    """A public key from a file in PEM."""
    check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _read(path, load_pem_public_key, "public")
    if not isinstance(key, Ed25519PublicKey):
        raise _wrong_key(path, "public")
    return key


def _private_key(path: Key) -> Ed25519PrivateKey:
    check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _read(path, lambda content: load_pem_private_key(content, password=None), "private")
    if not isinstance(key, Ed25519PrivateKey):
        raise _wrong_key(path, "private")
    return key


def _read(path: Key, load: Callable[[bytes], object], what: str) -> object:
    try:
        return load(Path(path).read_bytes())
    except OSError as error:
        raise ParameterError(f"the key {os.fspath(path)!r} cannot be read: {error.strerror}", value=path) from None
    except TypeError:
        raise ParameterError(
            f"the key {os.fspath(path)!r} is locked with a password; unlock it with openssl pkey -in KEY -out UNLOCKED",
            value=path,
        ) from None
    except Exception:  # the library has errors of its own for what it cannot read, and none may show a private key
        raise _wrong_key(path, what) from None


def _wrong_key(path: Key, what: str) -> ParameterError:
    ways = {"private": "genpkey -algorithm ed25519 -out KEY", "public": "pkey -in KEY -pubout -out PUB"}
    return ParameterError(
        f"{os.fspath(path)!r} holds no {what} Ed25519 key in PEM; make one with openssl {ways[what]}", value=path
    )


def _parts(signature: object) -> tuple[bytes, bytes]:
    """Public key and signature of what a file states."""
    wrong = CertificateError(
        f"the signature must have the parts algorithm ({ALGORITHM}), public_key and signature, in hexadecimal digits"
    )
    if not isinstance(signature, dict) or set(signature) != {"algorithm", "public_key", "signature"}:
        raise wrong
    try:
        public_key, signed = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["signature"])
    except (TypeError, ValueError):
        raise wrong from None
    if signature["algorithm"] != ALGORITHM or (len(public_key), len(signed)) != (32, 64):
        raise wrong
    # The highest bit is the sign of x.
    if int.from_bytes(public_key, "little") % 2**255 % _PRIME in _SMALL_ORDER:
        raise CertificateError(
            f"the public_key of the signature is {public_key.hex()}, a point of small order: signatures of such a key "
            "hold for any text and without any secret; sign with a key that openssl genpkey has made"
        )
    return public_key, signed


def _signed_bytes(certificate: Mapping[str, Any]) -> bytes:
    return _CONTEXT + canonical_json(dict(certificate)).encode()


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes_raw()


def check_installed() -> None:
    """Refuse to sign or to check a signature where the library is not there."""
    if find_spec("cryptography") is None:
        raise ParameterError(f"signatures need cryptography; install it with: {install_advice('sign')}")
