"""A network that fails: between a client and a server on this machine, cut or frozen at a chosen word."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Passes bytes between each client and the server, until told otherwise."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self._word: bytes | None = None
        self._action = ""
        self._frozen = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def once(self, word: bytes, action: str) -> None:
        """The next time a client says the word: ``lose`` it and cut, ``pass`` it and cut, or ``freeze`` everything."""
        self._word, self._action = word, action

    def freeze(self) -> None:
        """Pass nothing on from now, to anybody."""
        self._frozen.set()

    def thaw(self) -> None:
        """Pass everything on again."""
        self._frozen.clear()

    def close(self) -> None:
        """Stop."""
        self._ended.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._server_port)) as server:
            while not self._ended.is_set():
                if self._frozen.is_set():
                    self._ended.wait(0.02)
                    continue
                ready, _, _ = select.select([client, server], [], [], 0.05)
                if not ready or self._frozen.is_set():
                    continue
                for end, other in ((client, server), (server, client)):
                    if end in ready and not self._pass(end, other, end is client):
                        return

    def _pass(self, end: socket.socket, other: socket.socket, asked: bool) -> bool:
        content = end.recv(65536)
        if not content:
            return False
        if asked and self._word is not None and self._word in content:
            self._word = None
            if self._action == "freeze":
                self.freeze()
                return True  # the word is lost in the network
            if self._action == "pass":
                other.sendall(content)
                other.recv(65536)  # it was done, and nobody hears of it
            return False
        other.sendall(content)
        return True


@contextmanager
def proxy(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the server of a URL, and the URL through it."""
    port = url.rpartition("@")[2].partition("/")[0].rpartition(":")[2]
    between = Proxy(int(port))
    try:
        yield between, url.replace(f":{port}/", f":{between.port}/")
    finally:
        between.close()
