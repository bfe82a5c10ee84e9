"""Every parser of files and texts from outside, with good inputs to begin from.

A target takes the bytes of one input and reads it as the product does. It may refuse it by an error of pufferdp; any
other exception is a traceback that somebody would see.
"""

from __future__ import annotations

import io
import json
import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.random import default_rng

from pufferdp import Ledger, MarkovChain, PufferdpError, Query, Series, load_model, load_models, release, verify
from pufferdp.apps.web.app import NAMED, Page
from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.jobs import JOBS
from pufferdp.apps.web.requests import REQUESTS
from pufferdp.apps.web.session import SessionModel
from pufferdp.assess.audit.mechanisms.ours import known_mechanism
from pufferdp.assess.privacy import read_profile
from pufferdp.bounds.units.secrets import SegmentSecret
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.families import read_number_series
from pufferdp.data.layout import Coding, Layout, read_distance
from pufferdp.data.memory import MemoryFile
from pufferdp.data.number_files import read_losses
from pufferdp.data.ranges import read_last, read_moment
from pufferdp.data.records import read_records
from pufferdp.data.series import open_series
from pufferdp.ledger.history import import_ledger, read_export
from pufferdp.models.base import _OURS as OURS
from pufferdp.models.bins import parse_bins
from pufferdp.models.clock import rhythm_of
from pufferdp.models.units import Unit
from pufferdp.publish.answers.secrets import load_secrets
from pufferdp.publish.certificate import content_hash, read_signed
from pufferdp.publish.kind import kinds
from pufferdp.publish.redaction.private import PrivateRecords
from pufferdp.publish.signatures import Signer, read_public_key
from pufferdp.publish.tables.groups import Grouping
from pufferdp.publish.tables.parsing import parse_questions
from pufferdp.publish.tables.table import read_released
from tests.fuzz import sources
from tests.fuzz.mutate import changed_bytes, changed_json, json_bytes

GOLDEN = Path(__file__).parents[1] / "golden"
STEPPED = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=("a", "b"), step="5min")


@dataclass(frozen=True)
class Target:
    """One parser."""

    run: Callable[[bytes, Path], object]
    seeds: tuple[bytes, ...] = ()
    contents: tuple[Any, ...] = ()
    """JSON contents, which are changed value by value as well."""
    sealed: bool = False
    """Whether the contents are certificates, whose hash a careful forger makes anew."""
    cost: int = 1
    """What one case costs: ``make test-all`` tries so many fewer, ``make fuzz`` does not."""

    def cases(self, count: int, seed: int) -> Any:
        """So many broken inputs, the first of them good."""
        draw = random.Random(seed)
        seeds = (*self.seeds, *map(json_bytes, self.contents))
        yield from seeds[:count]
        for _ in range(count - len(seeds)):
            if self.contents and draw.random() < 0.8:
                content = changed_json(draw, draw.choice(self.contents))
                if self.sealed and isinstance(content, dict) and draw.random() < 0.8:
                    with suppress(ValueError, TypeError, PufferdpError):
                        content["sha256"] = content_hash(content)
                yield json_bytes(content)
            else:
                yield changed_bytes(draw, seeds)


def refused(target: Target, content: bytes, folder: Path) -> bool:
    """Whether an input is refused with a sentence; whatever else is raised is a bug."""
    try:
        target.run(content, folder)
    except PufferdpError as error:
        if not str(error):
            raise AssertionError("an error without a sentence") from error
        return True
    return False


def _file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    def run(content: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(content)
        return read(path)

    return run


def _text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    return lambda content, folder: read(content.decode("utf-8", "surrogateescape"))


def _here(read: Callable[[str, Path], object]) -> Callable[[bytes, Path], object]:
    return lambda content, folder: read(content.decode("utf-8", "surrogateescape"), folder)


def _fleet_folder(content: bytes, folder: Path) -> None:
    people = folder / "people"
    people.mkdir(exist_ok=True)
    (people / "ann.json").write_bytes(content)
    load_models(people)


def _values(content: bytes, folder: Path) -> None:
    """What a notebook hands over: values, columns or rows by name, as JSON has them."""
    try:
        options = json.loads(content)
    except (ValueError, RecursionError):
        return
    if isinstance(options, dict):
        known = {field.name for field in fields(Series)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            series = Series(**{"data": [], **{name: value for name, value in options.items() if name in known}})
            release(series, model=STEPPED, query="histogram", epsilon=1.0)


def _records(path: Path) -> None:
    read_records(path, column="s", id="who", records=("x", "y"), domains=(("a", "b"), ("a", "b")))


def _numbers(path: Path) -> None:
    read_number_series(path, Layout(column="v", order="t"))


class _Silent:
    """Whoever listens to a job of the page."""

    def __call__(self, words: str) -> None:
        pass

    def part(self, content: dict[str, Any]) -> None:
        json.dumps(content, allow_nan=False)


@cache
def _page() -> Page:
    page = Page(None)
    page.session.files.keep(
        MemoryFile("x.csv", b"t,s\n" + b"".join(b"%d,%s\n" % (n, b"ab"[n % 2 :][:1]) for n in range(12))), "x"
    )
    page.session.models.keep(SessionModel("m.json", MODELS[0]), "m")
    return page


def _request(content: bytes, folder: Path) -> None:
    """A request as the page takes it, and the work that it asks for."""
    try:
        asked = json.loads(content)
        job, body = asked["job"], json.dumps(asked["body"])
        page, request = _page(), REQUESTS[job].model_validate_json(body)
    except (ValueError, RecursionError, LookupError, TypeError):  # pydantic's is a ValueError: an answer of 400
        return
    arguments, inputs = request.to_dict(), Inputs()
    needs = page.session.needs(**{key: arguments[key] for key in NAMED if arguments.get(key) is not None})
    if arguments.get("data") is not None and "reading" in arguments and arguments["reading"] is None:
        return
    inputs.keep(needs, list(needs))
    given, finish = page._with_ledger(job, arguments), page._finish(job, arguments)
    if job != "audit":  # it takes the seconds that it is told
        json.dumps(finish(JOBS[job](inputs, _Silent(), **given)), allow_nan=False, ensure_ascii=False).encode()


READING = {"column": "s", "order": "t"}
ON_DATA = {"data": "x", "model": "m", "reading": READING, "epsilon": 1.0}
BODIES = (
    ("values", {"data": "x", "column": "s"}),
    ("fit", {"data": "x", "reading": READING, "bins": None, "confidence": None}),
    ("plan", {**ON_DATA, "query": "count:a", "clip": None, "adversary": "bdp", "length": None}),
    ("plan", {"model": "m", "query": "sum", "clip": [0, 1], "epsilon": 1.0, "length": 20}),
    ("errors", {"model": "m", "query": "histogram", "epsilon": 1.0, "length": 20}),
    ("release", {**ON_DATA, "query": "histogram", "mechanism": "group"}),
    ("leakage", {"stay": [0.9, 0.8], "length": 20, "dp_epsilon": 1.0, "query": "count:1"}),
    ("series", {"data": "x", "model": "m", "column": "s"}),
    ("design", {"model": "m", "length": 12, "private": [3], "epsilon": 1.0}),
    ("redact", {"data": "x", "model": "m", "column": "s", "private": [3, "5-6"], "epsilon": 1.0, "keep": ["t"]}),
    ("table_plan", {"model": "m", "queries": ["histogram", "count:a"], "split": [1, 2], "epsilon": 1.0, "length": 9}),
    ("table", {**ON_DATA, "queries": ["histogram"], "per": []}),
    ("flip_plan", {"model": "m", "epsilon": 1.0, "length": 12}),
    ("flip", dict(ON_DATA)),
    ("flow_plan", {"model": "m", "eta": 0.1, "tau": 0.5, "privacy": "record", "length": 20}),
    ("stream", {"model": "m", "losses": [0.1, 0.2], "target": None, "length": None}),
    ("audit", {"model": "m", "mechanism": "flip:0.1,0.1", "length": 5, "seconds": 1.0}),
)


def _series(path: Path) -> None:
    layout = Layout(column="s", order="t")
    open_series(path, layout).counts(Coding(labels=("a", "b")), transitions=True, ranges=True)


def _stream(content: bytes, folder: Path) -> None:
    layout, coding = Layout(column="s", order="t"), Coding(labels=("a", "b"))
    change_lines(io.BytesIO(content), io.BytesIO(), layout, coding, coding.labels, lambda codes: codes)


def _beside(name: str) -> Callable[[bytes, Path], object]:
    """A file that a model names."""
    keys = {"bif": {"type": "bayesian_network", "bif": "x.bif"}}
    keys["ped"] = {"type": "pedigree", "ped": "x.ped", "major_allele_frequency": 0.7}

    def run(content: bytes, folder: Path) -> None:
        (folder / f"x.{name}").write_bytes(content)
        (folder / "x.json").write_text(json.dumps(keys[name]))
        load_model(folder / "x.json")

    return run


def _certificate(path: Path) -> None:
    raw, signature = read_signed(path)
    verify(raw, signature=signature, query=Query.of_function(lambda chains: 0.0, 1.0, 1))


def _export(path: Path) -> None:
    books = path.parent / "imported.db"
    books.unlink(missing_ok=True)
    with Ledger(books, create=True) as ledger:
        import_ledger(ledger, read_export(path))


def _ledger(path: Path) -> None:
    for more in ("-wal", "-shm", "-journal"):
        Path(f"{path}{more}").unlink(missing_ok=True)
    with Ledger(path) as ledger:
        for name in ledger.names():
            ledger.dataset(name)
        ledger.verify()


def _golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def _parquet(frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_parquet(out)
    return out.getvalue()


BIF = b"""network small { }
variable rain { type discrete [ 2 ] { yes, no }; }
variable wet { type discrete [ 2 ] { yes, no }; }
probability ( rain ) { table 0.2, 0.8; }
probability ( wet | rain ) { (yes) 0.9, 0.1; (no) 0.1, 0.9; }
"""
PED = b"fam 1 0 0 1 1\nfam 2 0 0 2 1\nfam 3 1 2 1 2\n"
CSV = b"t,s\n" + b"".join(b"2024-01-01T00:%02d:00,%s\n" % (n, b"ab"[n % 2 : n % 2 + 1]) for n in range(20))
NUMBERED = b"t;s\n" + b"".join(b"%d;%s\n" % (n, b"a" if n % 3 else b"b") for n in range(12))
MODELS = (
    {"type": "markov_chain", "transition": [[0.9, 0.1], [0.4, 0.6]], "states": ["a", "b"], "values": [0, 1]},
    {"type": "markov_chain", "transition": [[0.9, 0.1], [0.4, 0.6]], "bins": [0, 1, 2], "step": "5min", "start": "any"},
    {"type": "markov_clock", "states": ["a", "b"], "step": "1h", "period": "24h", "start": "stationary",
     "transitions": [[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]]},
    {"type": "hidden_markov", "transition": [[0.9, 0.1], [0.4, 0.6]], "emission": [[0.8, 0.2], [0.1, 0.9]],
     "states": ["a", "b"], "start": "stationary"},
    {"type": "ar1", "coefficient": 0.9, "sd": 1.2, "mean": 70, "step": "1min"},
    {"type": "markov_class", "models": [{"type": "markov_chain", "transition": [[0.9, 0.1], [0.4, 0.6]]}]},
    {"type": "binary_interval", "low": 0.2, "high": 0.8},
    {"type": "markov_interval", "low": [[0.5, 0.1], [0.2, 0.3]], "high": [[0.9, 0.5], [0.7, 0.8]]},
    {"type": "groups", "largest": 4},
    {"type": "groups", "sizes": [2, 2], "positives": [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]},
    {"type": "gaussian", "mean": [0.0, 1.0], "covariance": [[1.0, 0.5], [0.5, 2.0]]},
    {"type": "limited_correlation", "records": 3, "rho": 0.275},
    {"type": "pedigree", "members": [{"id": "1", "father": None, "mother": None}], "major_allele_frequency": 0.7},
    {"type": "hidden_states", "states": ["a", "b"], "of": [0, 0, 1], "checks": {"records": 2000},
     "transition": [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.5, 0.25, 0.25]]},
    {"type": "hidden_states", "states": ["a", "b"], "of": [0, 1], "step": "12h", "period": "24h",
     "transition": [[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]]},
    {"type": "bayesian_network", "nodes": [{"name": "x", "states": ["a", "b"], "parents": [], "table": [0.2, 0.8]},
     {"name": "y", "states": ["a", "b"], "parents": ["x"], "table": [[0.9, 0.1], [0.1, 0.9]]}]},
    {"type": "class", "models": [{"type": "joint", "values": [0, 1], "outcomes": [
     {"records": [0, 1], "probability": 0.2}, {"records": [1, 1], "probability": 0.8}]}]},
    {"type": "joint", "values": [0, 1], "outcomes": [{"records": [0, 1], "probability": 0.2},
                                                     {"records": [1, 1], "probability": 0.8}]},
)  # fmt: skip
SECRETS = {
    "secrets": {"ill": {"1": "b"}, "well": [{"1": ["a"]}, {"2": "a"}]},
    "pairs": [["ill", "well"]],
}


@cache
def _keys() -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return private, key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)


def _signature(content: bytes, folder: Path) -> None:
    """The signature beside a certificate that holds."""
    raw = _golden("flip-two-states")
    try:
        signature = json.loads(content)
    except (ValueError, RecursionError):
        return
    verify_signature(raw, signature)


def verify_signature(raw: dict[str, Any], signature: object) -> None:
    """As ``verify`` does behind everything else."""
    from pufferdp.publish.signatures import signer_of

    with suppress(ValueError):  # verify takes both for a problem of the certificate
        signer_of(raw, signature)


CERTIFICATES = {
    "answers": ("answer-fitted", "answer-function", "answer-pedigree", "answer-network", "answer-class"),
    "flips": ("flip-two-states", "charged-flip"),
    "redaction": ("redaction-window", "charged-redaction"),
    "tables": ("table-charged", "table-questions"),
    "measurements": ("measurement-zcdp", "measurement-charged"),
    "flows": ("flow-record",),
}
"""Of each kind those that are verified fastest."""


def targets() -> dict[str, Target]:
    """All of them, by name."""
    frame = pd.DataFrame({"t": range(30), "s": ["a", "b", "a"] * 10})
    private, public = _keys()
    lines = {"person": "ann", "model": MODELS[0]}, {"people": ["b"], "model": MODELS[8]}
    signature = {"algorithm": "ed25519", "public_key": "00" * 32, "signature": "00" * 64}
    report = b"<!doctype html><script type='application/json' id='certificate'>" + json_bytes(
        _golden("flip-two-states")
    )
    out = {
        "csv": Target(_file("x.csv", _series), (CSV, NUMBERED), cost=4),
        "parquet": Target(_file("x.parquet", _series), (_parquet(frame),), cost=4),
        "frame": Target(sources.read_frame, contents=sources.frame_contents(), cost=4),
        "arrow": Target(sources.read_buffers, sources.BUFFERS, cost=10),
        "parquet-types": Target(_file("x.parquet", sources.count), sources.parquet_files(), cost=10),
        "sqlite": Target(_file("x.db", sources.read_sqlite), (sources.database(),), cost=10),
        "url": Target(_here(sources.read_url), sources.URLS, cost=2),
        "settings": Target(sources.read_settings, contents=sources.SETTINGS, cost=20),
        "stream": Target(_stream, (CSV, NUMBERED)),
        "model": Target(_file("x.json", load_model), contents=MODELS),
        "bif": Target(_beside("bif"), (BIF,)),
        "ped": Target(_beside("ped"), (PED,)),
        "fleet": Target(_file("x.json", load_models), contents=({"ann": MODELS[0], "bob": MODELS[6]},)),
        "fleet-folder": Target(_fleet_folder, contents=MODELS[:3]),
        "records": Target(_file("x.csv", _records), (b"who,s\ny,a\nx,b\n",), cost=4),
        "numbers": Target(_file("x.csv", _numbers), (b"t,v\n1,2.5\n2,-1\n3,0\n",), cost=4),
        "values": Target(
            _values,
            contents=(
                {"data": ["a", "b", "a", "a"] * 5},
                {"data": {"s": ["a", "b"] * 10, "t": list(range(20))}, "column": "s", "order": "t"},
                {"data": [{"s": "a", "who": "x"}, {"s": "b", "who": "x"}] * 9, "column": "s", "by": "who"},
                {"data": [0.5, 1.5, 0.5] * 5, "bins": [0, 1, 2], "missing": "keep"},
            ),
            cost=4,
        ),
        "page": Target(_request, contents=tuple({"job": job, "body": body} for job, body in BODIES), cost=20),
        "secret": Target(
            _text(lambda text: SegmentSecret.parse(text, STEPPED, 100)),
            (b"ever:a:3..7", b"all:2..9", b"ever:b:2024-05-03", b"all:2024-05-03T08:00..2024-05-03T09:00"),
        ),
        "mechanism": Target(
            _text(lambda text: known_mechanism(text, STEPPED, 20, 1.0, default_rng(1))),
            (b"laplace:histogram", b"laplace:count:a", b"flip:0.1,0.2", b"redact:10:1"),
            cost=4,
        ),
        "fleet-lines": Target(
            _file("x.jsonl", load_models),
            (b"\n".join(map(json_bytes, lines)),),
        ),
        "export": Target(_file("x.json", _export), contents=(_golden("ledger-export"),), cost=4),
        "ledger": Target(_file("x.db", _ledger), ((GOLDEN / "ledger.db").read_bytes(),), cost=10),
        "losses": Target(_file("x.csv", read_losses), (b"loss\n.1\n.2\n", b".1\n.3\n")),
        "losses-json": Target(_file("x.json", read_losses), contents=([0.1, 0.2, 1],)),
        "profile": Target(
            _file("x.csv", read_profile), (b"epsilon,delta\n.1,.2\n1,.01\n",), ([[0.1, 0.2], [1, 0.01]],)
        ),
        "secrets": Target(_file("x.json", load_secrets), contents=(SECRETS,)),
        "released": Target(_file("x.csv", read_released), (b"hour,records,count:a\n0,3,4\n1,3,-1.5\n",)),
        "released-json": Target(
            _file("x.json", read_released), contents=({"table": {"columns": ["records", "count:a"], "rows": [[3, 4]]}},)
        ),
        "report": Target(_file("x.html", _certificate), (report,)),
        "private-key": Target(_file("x.pem", Signer), (private, public)),
        "public-key": Target(_file("x.pem", read_public_key), (public, private)),
        "signature": Target(_signature, contents=(signature,)),
        "query": Target(_text(Query.parse), (b"count:a", b"histogram", b"frequency", b"sum", b"mean", b"flow")),
        "questions": Target(
            _text(lambda text: parse_questions(text.split(" "), clip=(0.0, 1.0))),
            (b"count:a histogram", b"quantile:0.5:0.9 min max", b"transitions mean", b"cross:a,b", b"median sum"),
        ),
        "private": Target(
            _text(lambda text: PrivateRecords.parse(text.split(","))),
            (b"1000,100-111", b"2024-05-03T08:00..2024-05-03T09:00", b"2024-05-03", b"1,2,3"),
        ),
        "time": Target(
            _text(_times), (b"2024-05-03T08:00", b"12.5", b"2024-05-03", b"2024-05-03T08:00:00+02:00", b"5min", b"8h")
        ),
        "bins": Target(_text(parse_bins), (b"0,200,400", b"width:200:0:5000", b"5:0:10")),
        "unit": Target(_text(lambda text: Unit.of(text, STEPPED)), (b"day", b"6h", b"12", b"hour", b"week")),
        "clock": Target(_text(rhythm_of), (b"hour", b"day", b"4")),
        "grouping": Target(_text(lambda text: Grouping.parse(text, "who")), (b"person,day", b"hour", b"week", b"col")),
    }
    for kind, names in CERTIFICATES.items():
        contents = tuple(map(_golden, names))
        out[f"certificate-{kind}"] = Target(
            _file("x.json", _certificate), contents=contents, sealed=True, cost=4 if kind == "flows" else 1
        )
    assert {content["type"] for content in MODELS} == set(OURS)
    assert {content["schema"] for target in out.values() if target.sealed for content in target.contents} == {
        kind.schema for kind in kinds() if kind.schema
    }
    return out


def _times(text: str) -> None:
    for unit in ("number", "time", "utc"):
        for read in (read_moment, read_last):
            with suppress(PufferdpError):
                read(text, unit)
    read_distance(text, "restart")
