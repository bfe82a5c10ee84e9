"""The server of the page: this machine only, one token, quiet."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from pufferdp.errors import ParameterError
from pufferdp.web.app import make_app
from pufferdp.web.guard import new_token

HOST = "127.0.0.1"


def serve(*, port: int, ledger: str | None, ready: Callable[[str], None]) -> None:
    """Serve until stopped; ``ready`` is called with the address once it can be opened."""
    listener = bound(port)
    port = listener.getsockname()[1]
    token = new_token()
    app = make_app(token=token, hosts=(f"{HOST}:{port}", f"localhost:{port}"), ledger=ledger)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses carry the token
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    ready(f"http://{HOST}:{port}/{token}/")
    uvicorn.Server(config).run(sockets=[listener])


def bound(port: int) -> socket.socket:
    """A socket of this machine; 0 stands for any free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError):
        listener.close()
        raise ParameterError(
            f"port is {port}; it is taken or not allowed: name another with --port, or leave it out", value=port
        ) from None
    listener.listen(128)
    return listener
