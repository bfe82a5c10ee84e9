"""The page as an application: what is asked, which lane does it, what is kept of the result."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pufferdp.apps.web import commands
from pufferdp.apps.web import requests as asks
from pufferdp.apps.web.guard import Guard, new_token
from pufferdp.apps.web.session import LARGEST, KeptModel, Made, Shelf
from pufferdp.apps.web.workers import Lane, Lanes
from pufferdp.basics.errors import DataError, ParameterError, PufferdpError
from pufferdp.data.memory import MemoryFile
from pufferdp.models.files.json import plain_errors

LARGEST_ASK: Final = 2**20
KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
Finish = Callable[[dict[str, Any]], dict[str, Any]]


def make_app(*, token: str, hosts: tuple[str, ...], ledger: str | None = None) -> ASGIApp:
    """The page behind its guard."""
    page = Page(ledger)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        warm = asyncio.create_task(page.lanes.plan.start())
        yield
        await warm
        await page.lanes.close()

    routes = [
        Route("/", page.index),
        Route("/static/{name:path}", page.static),
        Route("/api/start", page.start),
        Route("/api/upload/{what}", page.upload, methods=["POST"]),
        Route("/api/do/{job}", page.do, methods=["POST"]),
        Route("/api/made/{key}/{name}", page.download),
    ]
    missing = {404: _not_found, 405: _not_found}
    inner = Starlette(routes=routes, lifespan=life, exception_handlers=missing)
    inner.router.redirect_slashes = False  # it would lead to a path without the token
    return Guard(inner, token, hosts)


def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "There is nothing here."}, 404)


@dataclass(frozen=True)
class Job:
    """One kind of work: what is asked, and in which lane it is done."""

    ask: type[asks.Ask]
    lane: Callable[[Lanes], Lane]


JOBS: Final = {
    "values": Job(asks.ValuesAsk, lambda lanes: lanes.work),
    "fit": Job(asks.FitAsk, lambda lanes: lanes.work),
    "plan": Job(asks.PlanAsk, lambda lanes: lanes.plan),
    "errors": Job(asks.PlanAsk, lambda lanes: lanes.side),
    "release": Job(asks.ReleaseAsk, lambda lanes: lanes.work),
    "leakage": Job(asks.LeakageAsk, lambda lanes: lanes.side),
    "series": Job(asks.SeriesAsk, lambda lanes: lanes.work),
    "design": Job(asks.DesignAsk, lambda lanes: lanes.side),
    "redact": Job(asks.RedactAsk, lambda lanes: lanes.work),
    "ledger": Job(asks.LedgerAsk, lambda lanes: lanes.work),
    "ledger_verify": Job(asks.LedgerAsk, lambda lanes: lanes.work),
}


class Page:
    """Answers what the guard lets through."""

    def __init__(self, ledger: str | None) -> None:
        self.ledger, self.shelf, self.lanes = ledger, Shelf(), Lanes()
        # A closed list read once: no path that is asked for ever reaches the disk.
        self.assets = dict(_walk("static"))
        demo = files("pufferdp.apps.demo")
        week = MemoryFile(f"{commands.TOUR}/week.csv", (demo / "week.csv").read_bytes())
        wearer = json.loads((demo / "wearer.json").read_text(encoding="utf-8"))
        self.shelf.keep_file(week, "week")
        self.shelf.keep_model(KeptModel(f"{commands.TOUR}/wearer.json", wearer), "wearer")

    async def index(self, request: Request) -> Response:
        """The one document."""
        return Response(self.assets["index.html"], media_type="text/html")

    async def static(self, request: Request) -> Response:
        """Scripts and styles."""
        name = request.path_params["name"]
        if name not in self.assets or name == "index.html":
            return _not_found(request, KeyError(name))
        return Response(self.assets[name], media_type=KINDS.get(PurePosixPath(name).suffix, "text/plain"))

    async def start(self, request: Request) -> Response:
        """What the page needs to know first."""
        return JSONResponse(
            {
                "version": importlib.metadata.version("pufferdp"),
                "ledger": self.ledger,
                "largest": LARGEST,
                "commands": {"ledger": commands.ledger(self.ledger)},
            }
        )

    async def upload(self, request: Request) -> Response:
        """A file: data, a model, or a certificate to verify. Counted while it comes, kept in memory."""
        what, name = request.path_params["what"], _base_name(request.query_params.get("name", ""))
        if what not in ("data", "model", "verify") or not name:
            return _not_found(request, KeyError(what))
        content = await _body(request, LARGEST)
        if content is None:
            return _too_large(name)
        asked = {"name": name, "content": content}
        if what == "verify":
            return self._doing(self.lanes.work, "verify", asked | {"place": self.ledger}, {}, lambda found: found)
        if what == "model":
            return self._doing(self.lanes.work, "model", asked, {}, lambda found: self._keep_model(name, found, None))
        try:
            file = MemoryFile(name, content)
        except PufferdpError as error:
            return _refused(error)
        return self._doing(
            self.lanes.work,
            "columns",
            asked,
            {},
            lambda found: {**found, "key": self.shelf.keep_file(file), "name": name},
        )

    async def do(self, request: Request) -> Response:
        """Work that is asked for in JSON; what it says comes line by line."""
        name = request.path_params["job"]
        if name not in JOBS:
            return _not_found(request, KeyError(name))
        body = await _body(request, LARGEST_ASK)
        if body is None:
            return JSONResponse({"error": "The request is too large."}, 413)
        try:
            asked = JOBS[name].ask.model_validate_json(body).to_dict()
            keys = {key: asked[key] for key in ("data", "model") if asked.get(key) is not None}
            needs = self.shelf.needs(**keys)
            if asked.get("data") is not None and "reading" in asked and asked["reading"] is None:
                raise DataError("the column is missing; choose the column with states or numbers")
            given = self._given(name, asked)
        except ValidationError as error:
            return JSONResponse({"error": "; ".join(plain_errors(error)[:3]), "kind": "ParameterError"}, 400)
        except PufferdpError as error:
            return _refused(error)
        return self._doing(JOBS[name].lane(self.lanes), name, given, needs, self._finish(name, asked))

    def _given(self, job: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What the server adds to a request: the ledger's place is never the page's to choose."""
        if job in ("release", "redact"):
            return asked | {"ledger": self.ledger if asked["dataset"] is not None else None}
        if job == "ledger" or job == "ledger_verify":
            if self.ledger is None:
                raise DataError("no ledger is open")
            return {"place": self.ledger} | ({"head": None} if job == "ledger_verify" else {"theme": asked["theme"]})
        return asked

    def _finish(self, job: str, asked: dict[str, Any]) -> Finish:
        """What becomes of a result: things to download are kept, and the same by command line is added."""
        shelf = self.shelf
        data = shelf.files[asked["data"]].name if asked.get("data") else None
        model = shelf.models[asked["model"]] if asked.get("model") else None

        def fitted(found: dict[str, Any]) -> dict[str, Any]:
            return self._keep_model("model.json", found, {**asked, "source": data})

        def planned(found: dict[str, Any]) -> dict[str, Any]:
            assert model is not None
            return {**found, "commands": commands.plan({"ledger": self.ledger, **asked}, model, data, found["lengths"])}

        def released(found: dict[str, Any]) -> dict[str, Any]:
            whole = {k: found[k] for k in ("answer", "estimate", "denoised", "labels", "certificate")}
            # As text, too: a script would write 1.0 as 1, and the hash is over what is written.
            found["written"] = _json(found["certificate"])
            return _kept(shelf, found, {"release.json": _json(whole), "report.html": found["report"]})

        def designed(found: dict[str, Any]) -> dict[str, Any]:
            assert model is not None
            return {
                **found,
                "commands": commands.redaction({"ledger": self.ledger, **asked}, model, data, asked.get("column")),
            }

        def redacted(found: dict[str, Any]) -> dict[str, Any]:
            file = found.pop("file")
            made = {f"redacted-{_base_name(file.name)}": file.content.decode(), "report.html": found["report"]}
            return _kept(shelf, designed(found), {**made, "certificate.json": _json(found["certificate"])})

        finishers: Mapping[str, Finish] = {
            "fit": fitted,
            "plan": planned,
            "release": released,
            "leakage": lambda found: {**found, "commands": commands.leakage(asked)},
            "design": designed,
            "redact": redacted,
        }
        return finishers.get(job, lambda found: found)

    def _keep_model(self, name: str, found: dict[str, Any], fit: dict[str, Any] | None) -> dict[str, Any]:
        key = self.shelf.keep_model(KeptModel(name, found["model"], fit))
        made = {"model.json": _json(found.pop("model"))} if fit is not None else {}
        found.pop("model", None)
        return _kept(self.shelf, {**found, "key": key, "name": name}, made)

    def _doing(
        self, lane: Lane, job: str, asked: dict[str, Any], needs: Mapping[str, object], finish: Finish
    ) -> Response:
        self.lanes.warm()

        async def lines() -> AsyncGenerator[bytes]:
            async with aclosing(lane.run(job, asked, needs)) as said:
                async for kind, value in said:
                    if kind in ("done", "part") and value is not None:
                        value = finish(value)
                    line = {"error": value} if kind == "broken" else value if kind == "refused" else {kind: value}
                    yield json.dumps(line, allow_nan=False, ensure_ascii=False).encode() + b"\n"

        return Lines(lines())

    async def download(self, request: Request) -> Response:
        """Something that was made."""
        made = self.shelf.made.get(request.path_params["key"], {}).get(request.path_params["name"])
        if made is None:
            return _not_found(request, KeyError("made"))
        name = made.name.encode("ascii", "replace").decode().replace('"', "_").replace("\\", "_")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(made.content, media_type=made.media, headers=headers)


class Lines(Response):
    """Lines as they come. Whoever goes away stops the work at once."""

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        self.lines = lines
        super().__init__(media_type="application/x-ndjson")
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, or until nobody listens."""
        work = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finished = work.done()
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)
        if finished:
            work.result()  # an error of the server itself is not passed over

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self.lines) as lines:
            async for line in lines:
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
    async for chunk in request.stream():
        content += chunk
        if len(content) > largest:
            return None
    return bytes(content)


def _too_large(name: str) -> Response:
    words = f"{name} is too large: the page takes files of up to {LARGEST // 2**20} MB. Use the command line."
    return JSONResponse({"error": words, "kind": "DataError"}, 413, headers={"connection": "close"})


def _refused(error: PufferdpError) -> Response:
    return JSONResponse({"error": str(error), "kind": type(error).__name__, "exit": error.exit_code}, 400)


def _base_name(name: str) -> str:
    """The last part of a name, whatever system it is from; no control characters."""
    base = PureWindowsPath(PurePosixPath(name).name).name
    base = "".join(c for c in base if c.isprintable())[:200]
    return "./" + base if base.startswith("-") else base


def _kept(shelf: Shelf, found: dict[str, Any], made: dict[str, str]) -> dict[str, Any]:
    """A result whose files can be downloaded; the page gets their names."""
    found.pop("report", None)
    kept = {
        name: Made(name, "text/html" if name.endswith(".html") else "application/octet-stream", text.encode())
        for name, text in made.items()
        if text
    }
    return {**found, "made": {"key": shelf.keep_made(kept), "names": list(kept)}}


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
