"""The page as an application: which request comes, which worker does it, what is kept of the result."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import FrameType
from typing import Any, Final

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pufferdp.apps.flags import flags
from pufferdp.apps.web import commands
from pufferdp.apps.web.charged import AnswerFolder
from pufferdp.apps.web.connections import SLOW, PromptProtocol, body_time
from pufferdp.apps.web.guard import Guard, broken_words, new_token
from pufferdp.apps.web.requests import REQUESTS
from pufferdp.apps.web.session import LARGEST, Download, Session, SessionModel
from pufferdp.apps.web.workers import Worker
from pufferdp.basics import scratch
from pufferdp.basics.errors import DataError, ParameterError, PufferdpError
from pufferdp.basics.unexpected import stack_text
from pufferdp.basics.words import redacted_url
from pufferdp.data.memory import MemoryFile
from pufferdp.models.files.json import plain_errors

LARGEST_REQUEST: Final = 2**20
KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
NAMED: Final = ("data", "model", "certificate")
"""What a request names by its key."""
Finish = Callable[[dict[str, Any]], dict[str, Any]]


def make_app(*, token: str, hosts: tuple[str, ...], ledger: str | None = None) -> ASGIApp:
    """The page behind its guard."""
    page = Page(ledger)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        started = asyncio.gather(*(worker.ready() for worker in page.workers.values()))
        yield
        await started
        for worker in page.workers.values():
            await worker.close()

    routes = [
        Route("/", page.index),
        Route("/static/{name:path}", page.static),
        Route("/api/start", page.start),
        Route("/api/upload/{what}", page.upload, methods=["POST"]),
        Route("/api/do/{job}", page.do, methods=["POST"]),
        Route("/api/made/{key}/{name}", page.download),
    ]
    handlers = {404: _not_found, 405: _not_found, 408: _too_slow, Exception: _broken}
    inner = Starlette(routes=routes, lifespan=life, exception_handlers=handlers)
    inner.router.redirect_slashes = False  # it would lead to a path without the token
    return Guard(inner, token, hosts)


def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "There is nothing here."}, 404)


def _broken(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": broken_words(error)}, 500)


def _too_slow(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "The request came too slowly."}, 408, headers={"connection": "close"})


PLANS: Final = ("plan", "table_plan", "flip_plan", "flow_plan")
SLOW_JOBS: Final = ("errors", "leakage", "design", "stream", "audit")
"""What takes longest: where processors are scarce, its process gets a tenth of what one of the others gets."""


class Page:
    """Answers what the guard lets through."""

    def __init__(self, ledger: str | None) -> None:
        self.ledger, self.session = ledger, Session()
        # One for each kind of work, so that moving a slider does not wait for a file that is being read.
        self.workers = {"plan": Worker(), "work": Worker(), "side": Worker(nice=10)}
        self._shown_ledger = None if ledger is None else redacted_url(ledger)
        # A closed list read once: no path that is asked for ever reaches the disk.
        self.assets = dict(_walk("static"))
        demo = files("pufferdp.apps.demo")
        week = MemoryFile(f"{commands.TOUR}/week.csv", (demo / "week.csv").read_bytes())
        wearer = json.loads((demo / "wearer.json").read_text(encoding="utf-8"))
        self.session.files.keep(week, "week")
        self.session.models.keep(SessionModel(f"{commands.TOUR}/wearer.json", wearer), "wearer")

    async def index(self, request: Request) -> Response:
        """The document that the address leads to; everything else is a script, a style or a call."""
        return Response(self.assets["index.html"], media_type="text/html")

    async def static(self, request: Request) -> Response:
        """Scripts and styles, from the list that was read at the start."""
        name = request.path_params["name"]
        if name not in self.assets or name == "index.html":
            return _not_found(request, KeyError(name))
        return Response(self.assets[name], media_type=KINDS.get(PurePosixPath(name).suffix, "text/plain"))

    async def start(self, request: Request) -> Response:
        """What the page needs to know first."""
        return JSONResponse(
            {
                "version": importlib.metadata.version("pufferdp"),
                "ledger": self._shown_ledger,
                "answers": None if self.ledger is None else AnswerFolder.of(self.ledger).pattern,
                "largest": LARGEST,
                "commands": {"ledger": commands.ledger(self._shown_ledger)},
            }
        )

    async def upload(self, request: Request) -> Response:
        """A file: data, a model, or a certificate to verify. Counted while it comes, kept in memory."""
        what, name = request.path_params["what"], _base_name(request.query_params.get("name", ""))
        if what not in ("data", "model", "verify", "certificate") or not name:
            return _not_found(request, KeyError(what))
        content = await _body(request, LARGEST)
        if content is None:
            return _too_large(name)
        arguments = {"name": name, "content": content}
        finishers: Mapping[str, Finish] = {
            "verify": lambda result: result,
            "model": lambda result: self._keep_model(name, result, None),
            "certificate": lambda result: self._keep_certificate(name, result),
        }
        if what in finishers:
            more = {"place": self.ledger} if what == "verify" else {}
            return self._job_lines("work", what, arguments | more, {}, finishers[what])
        try:
            file = MemoryFile(name, content)
        except PufferdpError as error:
            return _refusal(error)

        def keep(result: dict[str, Any]) -> dict[str, Any]:
            return {**result, "key": self.session.files.keep(file), "name": name}

        return self._job_lines("work", "columns", arguments, {}, keep)

    async def do(self, request: Request) -> Response:
        """Work that is asked for in JSON; what it says comes line by line."""
        name = request.path_params["job"]
        if name not in REQUESTS:
            return _not_found(request, KeyError(name))
        body = await _body(request, LARGEST_REQUEST)
        if body is None:
            return JSONResponse({"error": "The request is too large."}, 413)
        worker = "plan" if name in PLANS else "side" if name in SLOW_JOBS else "work"
        try:
            arguments = REQUESTS[name].model_validate_json(body).to_dict()
            keys = {key: arguments[key] for key in NAMED if arguments.get(key) is not None}
            needs = self.session.needs(**keys)
            if arguments.get("data") is not None and "reading" in arguments and arguments["reading"] is None:
                raise DataError("the column is missing; choose the column with states or numbers")
            given = self._with_ledger(name, arguments)
        except ValidationError as error:
            return JSONResponse({"error": "; ".join(plain_errors(error)[:3]), "kind": "ParameterError"}, 400)
        except PufferdpError as error:
            return _refusal(error)
        return self._job_lines(worker, name, given, needs, self._finish(name, arguments))

    def _with_ledger(self, job: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the server adds to a request: the ledger's place is never the page's to choose."""
        if "dataset" in arguments:
            return arguments | {"ledger": self.ledger if arguments["dataset"] is not None else None}
        if not job.startswith("ledger"):
            return arguments
        if self.ledger is None:
            raise DataError("no ledger is open")
        return {"place": self.ledger} | ({"head": None} if job == "ledger_verify" else arguments)

    def _finish(self, job: str, arguments: dict[str, Any]) -> Finish:
        """What becomes of a result: things to download are kept, and the same by command line is added."""
        session = self.session
        data = session.files[arguments["data"]].name if arguments.get("data") else None
        model = session.models[arguments["model"]] if arguments.get("model") else None

        def fitted(result: dict[str, Any]) -> dict[str, Any]:
            return self._keep_model("model.json", result, {**arguments, "source": data})

        def released(result: dict[str, Any]) -> dict[str, Any]:
            whole = {
                k: result[k] for k in ("answer", "intervals", "estimate", "model_estimate", "labels", "certificate")
            }
            # As text, too: a script would write 1.0 as 1, and the hash is over what is written.
            result["written"] = _json(result["certificate"])
            return _with_downloads(session, result, {"release.json": _json(whole), "report.html": result["report"]})

        def redacted(result: dict[str, Any]) -> dict[str, Any]:
            file = result.pop("file")
            made = {f"redacted-{_base_name(file.name)}": file.content.decode(), "report.html": result["report"]}
            return _with_downloads(session, result, {**made, "certificate.json": _json(result["certificate"])})

        def flipped(result: dict[str, Any]) -> dict[str, Any]:
            file = result.pop("file")
            series = session.files.keep(MemoryFile(f"flipped-{_base_name(file.name)}", file.content))
            certificate = session.certificates.keep(SessionModel("certificate.json", result["certificate"]))
            return {**result, "flipped": {"data": series, "certificate": certificate}}

        finishers: Mapping[str, Finish] = {"fit": fitted, "release": released, "redact": redacted, "flip": flipped}
        finish: Finish = finishers.get(job, lambda result: result)

        def finished(result: dict[str, Any]) -> dict[str, Any]:
            result = finish(result)
            if job in commands.SCRIPTS:
                place = {**arguments, "ledger": self._shown_ledger}
                result["commands"] = commands.script_of(job, place, model, data, result.get("lengths", ()))
            if "files" in result:
                files = {name: _text(content) for name, content in result.pop("files").items()}
                result = _with_downloads(session, result, files)
            return result

        return finished

    def _keep_certificate(self, name: str, result: dict[str, Any]) -> dict[str, Any]:
        return {"key": self.session.certificates.keep(SessionModel(name, result["certificate"])), "name": name}

    def _keep_model(self, name: str, result: dict[str, Any], fit: dict[str, Any] | None) -> dict[str, Any]:
        key = self.session.models.keep(SessionModel(name, result["model"], fit))
        made = {"model.json": _json(result.pop("model"))} if fit is not None else {}
        result.pop("model", None)
        return _with_downloads(self.session, {**result, "key": key, "name": name}, made)

    def _job_lines(
        self, worker: str, job: str, arguments: dict[str, Any], needs: Mapping[str, object], finish: Finish
    ) -> Response:
        async def lines() -> AsyncGenerator[bytes]:
            async with aclosing(self.workers[worker].run(job, arguments, needs)) as messages:
                async for kind, value in messages:
                    try:
                        if kind in ("done", "part") and value is not None:
                            value = finish(value)
                        line = {"error": value} if kind == "broken" else value if kind == "refused" else {kind: value}
                        written = json.dumps(line, allow_nan=False, ensure_ascii=False).encode()
                    except Exception as error:  # the work itself has ended: what was charged lies in its file
                        sys.stderr.write(stack_text(error))
                        written = json.dumps({"error": broken_words(error)}).encode()
                    yield written + b"\n"

        return Lines(lines())

    async def download(self, request: Request) -> Response:
        """The content of a file that was made here."""
        made = self.session.downloads.things.get(request.path_params["key"], {}).get(request.path_params["name"])
        if made is None:
            return _not_found(request, KeyError("made"))
        name = made.name.encode("ascii", "replace").decode().replace('"', "_").replace("\\", "_")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(made.content, media_type=made.media, headers=headers)


class Lines(Response):
    """Lines as they come. A client that disconnects stops the work at once."""

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        self.lines = lines
        super().__init__(media_type="application/x-ndjson")
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, or until nobody listens."""
        work = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        finished = False
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            finished = work.done()
        finally:  # also where the server ends and no longer waits for this
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if finished:
            with suppress(TimeoutError):
                work.result()  # an error of the server itself is not passed over

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self.lines) as lines:
            async for line in lines:
                async with asyncio.timeout(SLOW):  # a client that does not read must not hold a worker
                    await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, largest: int) -> bytes | None:
    """The body, or None where it is too large; what is too large is not read to its end."""
    if int(request.headers.get("content-length", "0") or 0) > largest:
        return None
    content = bytearray()
    started = time.monotonic()
    chunks = request.stream()
    while True:
        try:
            async with asyncio.timeout(started + body_time(len(content)) - time.monotonic()):
                chunk = await anext(chunks, None)
        except (TimeoutError, ClientDisconnect):  # nobody reads the answer to half a request
            raise HTTPException(408) from None
        if chunk is None:
            return bytes(content)
        content += chunk
        if len(content) > largest:
            return None


def _too_large(name: str) -> Response:
    words = f"{name} is too large: the page takes files of up to {LARGEST // 2**20} MB. Use the command line."
    return JSONResponse({"error": words, "kind": "DataError"}, 413, headers={"connection": "close"})


def _refusal(error: PufferdpError) -> Response:
    return JSONResponse({"error": flags(str(error)), "kind": type(error).__name__, "exit": error.exit_code}, 400)


def _base_name(name: str) -> str:
    """The last part of a name, whatever system it is from; no control characters."""
    base = PureWindowsPath(PurePosixPath(name).name).name
    base = "".join(c for c in base if c.isprintable())[:200]
    return "./" + base if base.startswith("-") else base


def _with_downloads(session: Session, result: dict[str, Any], made: dict[str, str]) -> dict[str, Any]:
    """A result whose files can be downloaded; the page gets their names."""
    result.pop("report", None)
    downloads = {
        name: Download(name, "text/html" if name.endswith(".html") else "application/octet-stream", text.encode())
        for name, text in made.items()
        if text
    }
    return {**result, "made": {"key": session.downloads.keep(downloads), "names": list(downloads)}}


def _text(content: object) -> str:
    """What is downloaded: a file as it is, a text as it is, anything else as JSON."""
    if isinstance(content, MemoryFile):
        return content.content.decode()
    return content if isinstance(content, str) else _json(content)


def _json(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _walk(folder: str) -> list[tuple[str, bytes]]:
    root = files("pufferdp.apps.web") / folder
    out: list[tuple[str, bytes]] = []
    for part in root.iterdir():
        if part.is_dir():
            out += [(f"{part.name}/{inner.name}", inner.read_bytes()) for inner in part.iterdir() if inner.is_file()]
        else:
            out.append((part.name, part.read_bytes()))
    return out


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
        http=PromptProtocol,
        timeout_graceful_shutdown=1,
    )
    ready(f"http://{HOST}:{port}/{token}/")
    Server(config).run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that always ends its workers in order: a second Ctrl-C must not cut off what is charged."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a repeated request skips nothing."""
        super().handle_exit(sig, frame)
        self.force_exit = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and remove our temporary files: the signal that ends the server will end its process too."""
        await super().shutdown(sockets)
        scratch.remove_own()


def doorway(url: str) -> Path:
    """A file for this user alone that leads to an address.

    Who starts a browser with the address itself shows the token to everybody: command lines can be read by all.
    """
    page = scratch.scratch_folder() / "open.html"
    handle = os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write('<!doctype html><meta charset="utf-8"><title>pufferdp</title>\n')
        file.write(f'<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Open the page</a>\n')
    return page


def bound(port: int) -> socket.socket:
    """A socket of this machine; 0 stands for any free port."""
    # Named, or asyncio does not see that it is TCP, leaves small packets together, and every answer waits for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
