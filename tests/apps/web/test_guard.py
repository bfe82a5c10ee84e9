"""Who is answered, and what an answer may do. The application is called directly: no refusal needs a worker."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from pufferdp.apps.web import app as page
from pufferdp.apps.web import workers
from pufferdp.apps.web.app import bound, make_app
from pufferdp.apps.web.guard import HEADERS, new_token
from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.worker import WorkerContext, do
from pufferdp.basics.errors import ParameterError
from tests.apps.web.conftest import BYTES, JSON
from tests.fuzz.mutate import json_bytes
from tests.fuzz.targets import targets

TOKEN, HOST = "a-token-for-tests", "127.0.0.1:8123"
ROOT = f"/{TOKEN}/"
TARGETS = targets()


def call(method: str, path: str, **options: Any) -> httpx.Response:
    """One call to a fresh application."""

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(token=TOKEN, hosts=(HOST, "localhost:8123")))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, path, **options)

    return asyncio.run(go())


def test_with_the_token_there_is_an_answer() -> None:
    for path, kind in (("", "text/html"), ("static/app.js", "text/javascript"), ("api/start", "application/json")):
        answer = call("GET", ROOT + path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/static/app.js", "/api/start", "/api/do/plan", "/favicon.ico", f"/{TOKEN}", f"/{TOKEN[:-1]}/",
        f"/{TOKEN}x/", f"/{TOKEN.upper()}/", "//", f"//{TOKEN}/", f"/?token={TOKEN}", f"/x/../{TOKEN}x/",
        "/%00/", "/\N{LATIN SMALL LETTER E WITH ACUTE}/",
    ],
)  # fmt: skip
def test_without_the_token_there_is_none(path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = call(method, path, headers=JSON)
        assert answer.status_code == 403
        assert set(answer.json()) == {"error"}


def test_tokens_are_long_and_never_the_same() -> None:
    found = {new_token() for _ in range(100)}
    assert len(found) == 100
    assert min(map(len, found)) >= 43  # 256 bits


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "evil.example:8123", "[::1]:8123", ""])
def test_another_host_is_refused(host: str) -> None:
    """A name that somebody points at 127.0.0.1 gets nothing, token or not."""
    assert call("GET", ROOT, headers={"host": host}).status_code == 421


def test_the_other_name_of_this_machine_is_fine() -> None:
    assert call("GET", ROOT, headers={"host": "localhost:8123"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},  # another server on this machine
        {"origin": "http://localhost:8123"},  # same page, but under the other name
        {"origin": f"https://{HOST}"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_origin_is_refused(headers: dict[str, str]) -> None:
    for method, path in (("GET", "api/start"), ("POST", "api/do/plan"), ("OPTIONS", "api/do/plan")):
        answer = call(method, ROOT + path, headers={**headers, **JSON}, content=None if method == "GET" else "{}")
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_link_from_elsewhere_may_be_followed() -> None:
    """The address is often clicked in a terminal inside a browser."""
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert call("GET", ROOT, headers=followed).status_code == 200
    assert call("POST", ROOT + "api/do/plan", headers={**followed, **JSON}, content="{}").status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_forms_of_other_pages_are_refused(kind: str) -> None:
    assert call("POST", ROOT + "api/do/plan", headers={"content-type": kind}, content="{}").status_code == 415


def test_every_answer_has_its_headers() -> None:
    for path, status in ((ROOT, 200), ("/", 403), (ROOT + "nothing", 404), (ROOT + "static/vendor/vega.min.js", 200)):
        answer = call("GET", path)
        assert answer.status_code == status
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "set-cookie" not in answer.headers
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py", "static/%2e%2e/app.py", "static/..%2fapp.py", "static/%2e%2e%2f%2e%2e%2f__init__.py",
        "static/..%5c..%5capp.py", "static//etc/passwd", "static/%2fetc%2fpasswd", "static/vendor/../../app.py",
        "static/vendor/%2e%2e/%2e%2e/app.py", "static/index.html", "static/", "static", "api/made/..%2f..%2fapp/x",
        "api/made/x/..%2fy", "%2e%2e/app.py",
    ],
)  # fmt: skip
def test_paths_lead_nowhere_else(path: str) -> None:
    answer = call("GET", ROOT + path)
    assert answer.status_code in (403, 404)  # a path that climbs over the token has none
    assert set(answer.json()) == {"error"}


def test_an_upload_is_refused_by_its_length_and_by_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LARGEST", 1000)
    large = call("POST", ROOT + "api/upload/data?name=a.csv", headers=BYTES, content=b"x" * 1001)
    assert large.status_code == 413
    assert "too large" in large.json()["error"]
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 100
            yield b"x" * 100

    streamed = call("POST", ROOT + "api/upload/data?name=a.csv", headers=BYTES, content=endless())
    assert streamed.status_code == 413
    assert taken <= 1200  # it was not read to its end, for it has none


@pytest.mark.parametrize(
    ("path", "status"),
    [("api/upload/other?name=a.csv", 404), ("api/upload/data", 404), ("api/upload/data?name=a.exe", 400),
     ("api/upload/data?name=..%2f..%2f", 400), ("api/do/nothing", 404), ("api/do/columns", 404)],
)  # fmt: skip
def test_what_is_not_there(path: str, status: int) -> None:
    assert call("POST", ROOT + path, headers=BYTES, content=b"x").status_code == status


@pytest.mark.parametrize(
    ("job", "body", "words"),
    [
        ("plan", "{", "the content"),
        ("plan", "{}", "model is missing"),
        ("plan", '{"model": "wearer", "query": "histogram", "epsilon": "much"}', "epsilon"),
        ("plan", '{"model": "wearer", "query": "histogram", "epsilon": 1, "ledger": "x.db"}', "ledger is not a key"),
        ("release", '{"model": "wearer", "data": "week", "query": "histogram", "epsilon": 1}', "reading is missing"),
        ("plan", '{"model": "gone", "query": "histogram", "epsilon": 1}', "choose it again"),
        ("plan", '{"model": "wearer", "data": "week", "query": "histogram", "epsilon": 1}', "column is missing"),
        ("ledger", "{}", "no ledger is open"),
        ("leakage", '{"stay": [0.5], "length": 5, "dp_epsilon": 1}', "stay"),
    ],
)  # fmt: skip
def test_what_is_asked_is_checked_first(job: str, body: str, words: str) -> None:
    answer = call("POST", f"{ROOT}api/do/{job}", headers=JSON, content=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def test_vendored_scripts_are_those_that_are_written_down() -> None:
    vendor = files("pufferdp.apps.web") / "static" / "vendor"
    written = (vendor / "README.md").read_text(encoding="utf-8")
    scripts = [part for part in vendor.iterdir() if part.name.endswith(".js")]
    assert len(scripts) == 3
    for script in scripts:
        assert f"| `{hashlib.sha256(script.read_bytes()).hexdigest()}` |" in written, script.name
    assert len([part for part in vendor.iterdir() if part.name.startswith("LICENSE")]) == 3


def test_it_listens_on_this_machine_alone() -> None:
    with bound(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(ParameterError, match="port"):
            bound(port)
    with pytest.raises(ParameterError, match="port"):
        bound(70_000)


SECRET = "patient-4711"


@pytest.mark.parametrize("where", ["a request", "a result"])
def test_an_error_of_the_page_itself_is_told_without_its_words(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer was plain text, or ended in the middle; the error went to the server's log with all its words."""

    def fail(*arguments: object, **options: object) -> Any:
        raise ValueError(f"cannot convert '{SECRET}'")

    async def done(*arguments: object, **options: object) -> AsyncIterator[tuple[str, Any]]:
        yield "done", {"answer": 1}

    monkeypatch.setattr(workers.Worker, "run", done)
    if where == "a request":
        monkeypatch.setattr(page.Page, "_with_ledger", fail)
    else:
        monkeypatch.setattr(page.Page, "_finish", lambda *arguments: fail)
    body = '{"model": "wearer", "query": "histogram", "epsilon": 1, "length": 9}'
    answer = call("POST", f"{ROOT}api/do/plan", headers=JSON, content=body)
    assert answer.status_code == (500 if where == "a request" else 200)
    assert answer.json() == {"error": "something went wrong that should not have: ValueError"}
    shown = capsys.readouterr().err
    assert "in fail" in shown
    assert SECRET not in shown


def test_whoever_leaves_in_the_middle_of_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    """It was a traceback in the server's log."""
    sent: list[Any] = []
    heard = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    scope = {
        "type": "http", "method": "POST", "path": f"{ROOT}api/do/plan", "query_string": b"", "http_version": "1.1",
        "headers": [(b"host", HOST.encode()), (b"content-type", b"application/json")], "scheme": "http",
    }  # fmt: skip

    async def go() -> None:
        async def receive() -> Any:
            return next(heard)

        async def send(message: Any) -> None:
            sent.append(message)

        await make_app(token=TOKEN, hosts=(HOST,))(scope, receive, send)

    asyncio.run(go())
    assert sent[0]["status"] == 408
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "body",
    [
        {"stay": None, "length": 20, "dp_epsilon": 1.0},
        {"stay": [5e-324, 0.8], "length": 20, "dp_epsilon": 1.0},
    ],
)
def test_leakage_of_odd_chains_is_answered(body: dict[str, Any], tmp_path: Path) -> None:
    """Each was an error of the page itself."""
    TARGETS["page"].run(json_bytes({"job": "leakage", "body": body}), tmp_path)


def test_a_guarantee_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    """It was designed for, and no JSON holds what is infinite."""
    body = {"model": "m", "length": 12, "private": [3], "epsilon": 1e308}
    with pytest.raises(ParameterError, match=r"epsilon is 1e\+308; above 1e\+100 it guarantees nothing"):
        TARGETS["page"].run(json_bytes({"job": "design", "body": body}), tmp_path)


@pytest.mark.parametrize("charged", [False, True])
def test_work_that_breaks_says_whether_it_may_have_charged(charged: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """It did not: whoever saw it would have asked again, and been charged twice."""
    context = WorkerContext(io.BytesIO())
    sent: list[tuple[str, object]] = []
    context.send = lambda kind, value: sent.append((kind, value))  # type: ignore[method-assign]
    if charged:
        context.allow()

    def job(*arguments: object) -> dict[str, Any]:
        raise ValueError(SECRET)

    do(job, Inputs(), context, {})
    more = "; it may have been charged: look at the ledger" if charged else ""
    assert sent[-1] == ("broken", f"something went wrong that should not have: ValueError{more}")
    assert SECRET not in capsys.readouterr().err
