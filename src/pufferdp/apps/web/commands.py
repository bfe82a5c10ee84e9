"""The command line and the Python that do what a tab shows. A test runs them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pufferdp.apps.web.session import SessionModel
from pufferdp.publish.answers.queries import asks_table

TOUR: Final = "pufferdp-demo"
"""Folder that the demo writes, with the bundled example in it."""
CHAINS: Final = ("markov_chain", "markov_class", "binary_interval", "markov_interval")
WIDTH: Final = 88
JOINED: Final = ("lengths", "split", "stream", "private")
"""Options of the command line that take a list with commas."""
MOST_CHAINS: Final = 500
"""More chains than this are not listed one by one."""


Request = dict[str, Any]
Given = SessionModel | None
Chains = Sequence[Sequence[int]]


@dataclass
class Script:
    """Lines of both languages, side by side."""

    shell: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=lambda: ["import pufferdp", ""])

    def to_dict(self) -> dict[str, str]:
        """Both texts, under the names that the page looks for."""
        return {"shell": "\n".join(self.shell), "python": "\n".join(self.python)}

    def run(self, verb: str, /, *words: object, **options: object) -> None:
        """Add a command line; options that are None or False are left out, and a list is an option for each."""
        parts = ["pufferdp", *verb.split(), *(shlex.quote(str(word)) for word in words)]
        for name, value in options.items():
            joined = ",".join(map(_text, value)) if name in JOINED and isinstance(value, list) else value
            for item in joined if isinstance(joined, list) else [joined]:
                if item is not None and item is not False:
                    values = () if item is True else item if isinstance(item, tuple) else (item,)
                    parts += [f"--{name.replace('_', '-')}", *(shlex.quote(_text(each)) for each in values)]
        self.shell.append(_fold(parts))

    def call(self, target: str, function: str, /, *first: str, **options: object) -> None:
        """Add a call of a function of ``pufferdp``, whose result is printed; options as in ``run``."""
        named = {name: value for name, value in options.items() if value is not None and value is not False}
        given = [*first, *(f"{name}={value!r}" for name, value in named.items())]
        line = f"{target} = pufferdp.{function}({', '.join(given)})"
        if len(line) > WIDTH:
            line = f"{target} = pufferdp.{function}(\n    " + ",\n    ".join(given) + ",\n)"
        self.python += [line, f"print({target})"]

    def ask(self, verb: str, function: str, place: str, /, **options: object) -> None:
        """Add a command and a call about a model."""
        self.run(verb, place, **options)
        self.call("found", function, "model", **options)

    def publish(self, verb: str, place: str, data: str, files: dict[str, str], **options: object) -> None:
        """Add a command and a call that publish something from data; ``files`` are written by the command alone."""
        self.run(verb, data, model=place, **options, **files)
        self.call("made", verb, repr(data), "model=model", **options)

    def check(self, file: str) -> None:
        """Verify what was published."""
        self.run("verify", file)
        self.python.append("print(pufferdp.verify(made.certificate).valid)")


def plan(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for planning shows: plan, and with data release and verify."""
    script = Script()
    place, size = _model(script, model, data), _size(request, model, lengths)
    asked = {name: request[name] for name in ("query", "epsilon")}
    asked |= {"clip": _clip(request), "adversary": _adversary(request)}
    if _fits(script, size):
        script.ask("plan", "plan", place, **size, **asked)
    if data is not None:
        more = {**_reading(request), "id": request["id"], **asked, "mechanism": request.get("mechanism")}
        files = {"out": "release.json", "report": "report.html"}
        script.publish("release", place, data, files, **more, **_account(request))
        script.check("release.json")
    return script.to_dict()


def table(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for tables shows: its plan, and with data the table and its check."""
    script = Script()
    place, size = _model(script, model, data), _size(request, model, lengths)
    query = request["queries"] if len(request["queries"]) > 1 else request["queries"][0]
    asked = {"query": query, "per": request["per"] or None, "clip": _clip(request), "epsilon": request["epsilon"]}
    asked |= {"adversary": _adversary(request), "split": request["split"]}
    tabled = asks_table(query, request["per"])
    if _fits(script, size):
        script.ask("plan", "plan_table" if tabled else "plan", place, **size, **asked)
    if data is not None:
        out, certificate = ("table.csv", "table.certificate.json") if tabled else ("release.json", "release.json")
        files = {"out": out, "report": "report.html"}
        script.publish("release", place, data, files, **_reading(request), **_account(request), **asked)
        script.check(certificate)
    return script.to_dict()


def flip(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for flips shows: the design, or with data the series, its check and what can be estimated."""
    script = Script()
    place = _model(script, model, data)
    asked = {"epsilon": request["epsilon"], "adversary": _adversary(request)}
    if data is None:
        script.run("flip", model=place, **asked, length=request["length"])
        script.call("design", "design_flips", "model", **asked, length=request["length"])
        return script.to_dict()
    more = {**_reading(request), **asked, **_account(request), "out": "flipped.csv"}
    script.publish("flip", place, data, {"certificate": "certificate.json"}, **more)
    script.run("estimate", "flipped.csv", certificate="certificate.json")
    script.python.append('print(pufferdp.estimate("flipped.csv", made.certificate))')
    return script.to_dict()


def flow(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for flows shows: the plan, and with data the flow and its check."""
    script = Script()
    place, size = _model(script, model, data), _size(request, model, lengths)
    asked = {name: request[name] for name in ("eta", "tau")}
    asked |= {"privacy": None if request["privacy"] == "joint" else request["privacy"]}
    if _fits(script, size):
        script.run("plan", place, query="flow", **size, **asked)
        script.call("plan", "plan_flow", "model", **size, **asked)
    if data is not None:
        files = {"out": "flow.json", "report": "report.html"}
        script.publish("flow", place, data, files, **_reading(request), **asked, **_account(request))
        script.check("flow.json")
    return script.to_dict()


def stream(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for streams shows."""
    script = Script()
    place = _model(script, model, None)
    more, target, losses = {"length": request["length"], "adversary": _adversary(request)}, request["target"], None
    if target is None:
        losses = request["losses"]
        script.call("found", "stream_leakage", "model", epsilons=losses[0] if len(losses) == 1 else losses, **more)
    else:
        script.call("found", "stream_budget", "model", target=target, **more)
    script.run("leakage", place, stream=losses, stream_target=target, **more)
    return script.to_dict()


def audit(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for audits shows."""
    script = Script()
    more = {name: request[name] for name in ("mechanism", "length", "dp_epsilon", "seconds")}
    more |= {"adversary": _adversary(request), "clip": _clip(request)}
    script.ask("audit", "audit_mechanism", _model(script, model, None), **more)
    return script.to_dict()


def leakage(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for leakage shows."""
    script, place = Script(), "chain.json"
    more = {name: request[name] for name in ("length", "dp_epsilon", "query")} | {"adversary": _adversary(request)}
    if model is None:
        rows = two_states(request["stay"])
        chain = json.dumps({"type": "markov_chain", "transition": rows})
        script.shell.append(f"echo {shlex.quote(chain)} > {place}")
        script.python.append(f"model = pufferdp.MarkovChain(transition={rows!r})")
    else:
        place = _model(script, model, None)
    script.ask("leakage", "leakage_of", place, **more)
    return script.to_dict()


def two_states(stay: Sequence[float] | None) -> list[list[float]]:
    """The chain of the tab for leakage, fair coins by default; 0.1 as people write it, and not 0.09999999999999998."""
    a, b = stay or (0.5, 0.5)
    return [[a, round(1 - a, 12)], [round(1 - b, 12), b]]


def redaction(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for redaction shows: a design, or with data the redaction and its check."""
    script = Script()
    only_design = "keep" not in request and not any(isinstance(row, str) for row in request["private"])
    source = None if only_design else data
    place = _model(script, model, source)
    asked = {"private": request["private"], "epsilon": request["epsilon"], "adversary": _adversary(request)}
    if source is None:
        script.run("redact", model=place, **asked, length=request["length"])
        script.call("made", "plan_redaction", "model", **asked, length=request["length"])
    else:
        more = {"column": request["column"], **asked, "keep": request.get("keep") or None, "order": request["order"]}
        more |= {**_account(request), "out": "redacted.csv"}
        script.publish("redact", place, source, {"certificate": "c.json"}, **more)
        script.run("verify", "c.json")
    return script.to_dict()


def ledger(place: str | None) -> dict[str, str]:
    """What the tab for the ledger shows; without a ledger, how to create one."""
    script = Script()
    if place is None:
        script.run("ledger create", "books.db", dataset="week", model="wearer.json", budget=2)
        script.run("serve", ledger="books.db")
        script.python.append('ledger = pufferdp.Ledger("books.db", create=True)')
        script.python.append('model = pufferdp.load_model("wearer.json")')
        script.python.append('print(ledger.create("week", model=model, budget=2))')
        return script.to_dict()
    script.run("ledger show", place)
    script.run("ledger verify", place)
    script.python.append(f"with pufferdp.Ledger({place!r}) as ledger:")
    script.python.append("    for name in ledger.names():")
    script.python.append("        print(ledger.dataset(name))")
    script.python.append("    print(ledger.verify())")
    return script.to_dict()


def _model(script: Script, model: SessionModel | None, data: str | None) -> str:
    """The lines that bring the model: the demo's, a fit, or a file that is there."""
    assert model is not None
    if any(name is not None and name.startswith(TOUR + "/") for name in (data, model.name)):
        script.shell.append(f"pufferdp demo --out {TOUR} --overwrite")
    if model.fit is None:
        script.python.append(f"model = pufferdp.load_model({model.name!r})")
        return model.name
    more = {**_reading(model.fit), **{name: model.fit[name] for name in ("bins", "confidence")}}
    script.run("fit", model.fit["source"], **more, out=model.name)
    script.call("fitted", "fit", repr(model.fit["source"]), **more)
    script.python[-1] = "model = fitted.model"
    return model.name


def _fits(script: Script, size: dict[str, Any]) -> bool:
    """Whether the chains can be listed; otherwise the script says why there is no plan."""
    if "lengths" not in size or len(size["lengths"]) <= MOST_CHAINS:
        return True
    for lines in (script.shell, script.python):
        lines.append("# plan would need the length of every chain here; release counts them itself")
    return False


def _reading(request: Request) -> dict[str, Any]:
    """How rows are read; defaults go without saying."""
    return {k: v for k, v in request["reading"].items() if not (k == "missing" and v == "refuse")}


def _account(request: Request) -> dict[str, Any]:
    """The ledger and the data set, where something is charged."""
    named = request.get("dataset")
    return {"ledger": request.get("ledger") if named else None, "dataset": named}


def _clip(request: Request) -> tuple[float, float] | None:
    return tuple(request["clip"]) if request["clip"] else None


def _size(request: dict[str, Any], model: Given, lengths: Sequence[Sequence[int]]) -> dict[str, Any]:
    assert model is not None
    if model.content["type"] not in CHAINS and "largest" not in model.content:
        return {}  # other models know their records
    if request["data"] is None:
        return {} if request["length"] is None else {"length": request["length"]}
    if len(lengths) == 1 and lengths[0][1] == 1:
        return {"length": lengths[0][0]}
    return {"lengths": [length for length, count in lengths for _ in range(count)]}


SCRIPTS: Final[dict[str, Callable[[Request, Given, str | None, Chains], dict[str, str]]]] = {
    "plan": plan,
    "table_plan": table,
    "table": table,
    "flip_plan": flip,
    "flip": flip,
    "flow_plan": flow,
    "flow": flow,
    "leakage": leakage,
    "stream": stream,
    "audit": audit,
    "design": redaction,
    "redact": redaction,
}
"""By the job whose result they stand beside."""


def _adversary(request: dict[str, Any]) -> str | None:
    """The default goes without saying."""
    return None if request["adversary"] == "bdp" else request["adversary"]


def _text(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _fold(parts: list[str], width: int = WIDTH) -> str:
    """Lines that fit, with backslashes."""
    lines = [parts[0]]
    for part in parts[1:]:
        new = part.startswith("--") and len(lines[-1]) + len(part) > width - 24
        if new:
            lines.append("  " + part)
        else:
            lines[-1] += " " + part
    return " \\\n".join(lines)
