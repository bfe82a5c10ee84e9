"""Who is answered: only this machine, only with the token, only the page itself. And what its answers may do.

The token is the first part of every path. A cookie would be sent to every server on 127.0.0.1, whatever its port, and
pages of those servers could make calls with it; without the path there is nothing here.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pufferdp.basics.unexpected import stack_text

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
"""On every answer, refusals included. There is no CORS header, so no other origin can read anything."""

_BODIES: Final = ("application/json", "application/octet-stream")
"""A form of another page cannot send these without asking first, and nobody says yes."""


class Guard:
    """Refuses strangers before the page sees them, and takes the token off the path."""

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str]) -> None:
        self._app, self._token, self._hosts = app, token, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why it is rejected."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None  # no websockets here: the server closes them

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, words = refusal
            return await JSONResponse({"error": words}, status)(scope, receive, guarded)
        _, _, rest = scope["path"][1:].partition("/")
        try:
            await self._app({**scope, "path": "/" + rest, "raw_path": None}, receive, guarded)
        except (
            Exception
        ) as error:  # answered by now; the server would write its words, which may repeat data, to its log
            sys.stderr.write(stack_text(error))
        return None

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "This page answers on this machine only, under the address that was printed."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        looking = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if origin not in (None, f"http://{host}") or (site not in ("same-origin", "none") and not looking):
            return 403, "Another page may not call this one."
        token, slash, _ = scope["path"][1:].partition("/")
        if not secrets.compare_digest(token.encode(), self._token.encode()) or not slash:
            return 403, "There is no answer without the token: open the address that pufferdp serve printed."
        if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0].strip() not in _BODIES:
            return 415, f"A call carries one of {' or '.join(_BODIES)}."
        return None


def broken_words(error: Exception) -> str:
    """What is said of an error that nobody foresaw."""
    return f"something went wrong that should not have: {type(error).__name__}"


def new_token() -> str:
    """256 bits from the operating system, fit for a path."""
    return secrets.token_urlsafe(32)
