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

    def run(self, verb: str, *words: object, **options: object) -> None:
        """Add a command line; options that are None or False are left out, and a list is an option for each."""
        parts = ["pufferdp", *verb.split(), *(shlex.quote(str(word)) for word in words)]
        each = {name: value if isinstance(value, list) else [value] for name, value in options.items()}
        for name, value in ((name, item) for name, items in each.items() for item in items):
            if value is not None and value is not False:
                values = () if value is True else value if isinstance(value, tuple) else (value,)
                parts += [f"--{name.replace('_', '-')}", *(shlex.quote(_text(item)) for item in values)]
        self.shell.append(_fold(parts))

    def call(self, target: str, function: str, *first: str, **options: object) -> None:
        """Add a call of a function of ``pufferdp``; options that are None or False are left out."""
        named = {name: value for name, value in options.items() if value is not None and value is not False}
        given = [*first, *(f"{name}={value!r}" for name, value in named.items())]
        line = f"{target}pufferdp.{function}({', '.join(given)})"
        if len(line) > WIDTH:
            line = f"{target}pufferdp.{function}(\n    " + ",\n    ".join(given) + ",\n)"
        self.python.append(line)


def plan(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for planning shows: plan, and with data release and verify."""
    script = Script()
    assert model is not None
    place, source = _model(script, model, data), data
    size = _size(request, model, lengths)
    clip = tuple(request["clip"]) if request["clip"] else None
    guarantee = {"epsilon": request["epsilon"], "adversary": _adversary(request)}
    if _fits(script, size):
        script.run("plan", place, query=request["query"], **_listed(size), clip=clip, **guarantee)
        script.call("plan = ", "plan", "model", repr(request["query"]), **size, clip=clip, **guarantee)
        script.python.append("print(plan)")
    if source is not None:
        _release(script, request, place, source)
    return script.to_dict()


def _fits(script: Script, size: dict[str, Any]) -> bool:
    """Whether the chains can be listed; otherwise the script says why there is no plan."""
    if "lengths" not in size or len(size["lengths"]) <= MOST_CHAINS:
        return True
    for lines in (script.shell, script.python):
        lines.append("# plan would need the length of every chain here; release counts them itself")
    return False


def _listed(size: dict[str, Any]) -> dict[str, Any]:
    return {name: ",".join(map(str, v)) if isinstance(v, list) else v for name, v in size.items()}


def _reading(request: Request) -> dict[str, Any]:
    """How rows are read; defaults go without saying."""
    return {k: v for k, v in request["reading"].items() if not (k == "missing" and v == "refuse")}


def _account(request: Request) -> dict[str, Any]:
    """The ledger and the data set, where something is charged."""
    named = request.get("dataset")
    return {"ledger": request.get("ledger") if named else None, "dataset": named}


def _release(script: Script, request: Request, place: str, source: str) -> None:
    more = {
        **_reading(request),
        "id": request["id"],
        "query": request["query"],
        "clip": tuple(request["clip"]) if request["clip"] else None,
        "epsilon": request["epsilon"],
        "adversary": _adversary(request),
        "mechanism": request.get("mechanism"),
        **_account(request),
    }
    script.run("release", source, model=place, **more, out="release.json", report="report.html")
    script.run("verify", "release.json")
    script.call("made = ", "release", repr(source), "model=model", **more)
    script.python += ["print(made)", "print(pufferdp.verify(made.certificate).valid)"]


def table(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for tables shows: its plan, and with data the table and its check."""
    script = Script()
    assert model is not None
    place, size = _model(script, model, data), _size(request, model, lengths)
    clip = tuple(request["clip"]) if request["clip"] else None
    asked: dict[str, Any] = {"per": request["per"] or None, "clip": clip, "epsilon": request["epsilon"]}
    asked |= {"adversary": _adversary(request), "split": request["split"]}
    asked["query"] = request["queries"] if len(request["queries"]) > 1 else request["queries"][0]
    tabled = asks_table(asked["query"], request["per"])
    shell = {**asked, "split": None if request["split"] is None else ",".join(map(_text, request["split"]))}
    if _fits(script, size):
        script.run("plan", place, **_listed(size), **shell)
        rest = {name: value for name, value in asked.items() if name != "query"}
        script.call("plan = ", "plan_table" if tabled else "plan", "model", repr(asked["query"]), **size, **rest)
        script.python.append("print(plan)")
    if data is not None:
        more = {**_reading(request), **_account(request)}
        out, certificate = ("table.csv", "table.certificate.json") if tabled else ("release.json", "release.json")
        script.run("release", data, model=place, **more, **shell, out=out, report="report.html")
        script.run("verify", certificate)
        script.call("made = ", "release", repr(data), "model=model", **more, **asked)
        script.python += ["print(made)", "print(pufferdp.verify(made.certificate).valid)"]
    return script.to_dict()


def flip(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for flips shows: the design, or with data the series, its check and what can be estimated."""
    script = Script()
    assert model is not None
    place = _model(script, model, data)
    guarantee = {"epsilon": request["epsilon"], "adversary": _adversary(request), "optimise": request["optimise"]}
    if data is None:
        script.run("flip", model=place, **guarantee, length=request["length"])
        rest = {name: value for name, value in guarantee.items() if name != "epsilon"}
        script.call("design = ", "design_flips", "model", repr(guarantee["epsilon"]), **rest, length=request["length"])
        script.python.append("print(design)")
        return script.to_dict()
    more = {**_reading(request), **guarantee, **_account(request)}
    script.run("flip", data, model=place, **more, out="flipped.csv", certificate="certificate.json")
    script.run("estimate", "flipped.csv", certificate="certificate.json")
    script.call("made = ", "flip", repr(data), "model=model", **more, out="flipped.csv")
    script.python += ["print(made)", 'print(pufferdp.estimate("flipped.csv", made.certificate))']
    return script.to_dict()


def flow(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for flows shows: the plan, and with data the flow and its check."""
    script = Script()
    assert model is not None
    place, size = _model(script, model, data), _size(request, model, lengths)
    guarantee = {name: request[name] for name in ("eta", "tau")}
    guarantee |= {"privacy": None if request["privacy"] == "joint" else request["privacy"]}
    if _fits(script, size):
        script.run("plan", place, query="flow", **_listed(size), **guarantee)
        script.call("plan = ", "plan_flow", "model", **size, **guarantee)
        script.python.append("print(plan)")
    if data is not None:
        more = {**_reading(request), **guarantee, **_account(request)}
        script.run("flow", data, model=place, **more, out="flow.json", report="report.html")
        script.run("verify", "flow.json")
        script.call("made = ", "flow", repr(data), "model=model", **more)
        script.python += ["print(made)", "print(pufferdp.verify(made.certificate).valid)"]
    return script.to_dict()


def stream(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for streams shows."""
    script = Script()
    assert model is not None
    place = _model(script, model, None)
    more = {"length": request["length"], "adversary": _adversary(request)}
    if request["target"] is not None:
        script.run("leakage", place, stream_target=request["target"], **more)
        script.call("found = ", "stream_budget", "model", repr(request["target"]), **more)
    else:
        losses = request["losses"]
        script.run("leakage", place, stream=",".join(map(_text, losses)), **more)
        script.call("found = ", "stream_leakage", "model", repr(losses[0] if len(losses) == 1 else losses), **more)
    script.python.append("print(found)")
    return script.to_dict()


def audit(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for audits shows."""
    script = Script()
    assert model is not None
    place = _model(script, model, None)
    more = {name: request[name] for name in ("mechanism", "length", "dp_epsilon", "seconds")}
    more |= {"adversary": _adversary(request), "clip": tuple(request["clip"]) if request["clip"] else None}
    script.run("audit", place, **more)
    mechanism = more.pop("mechanism")
    script.call("found = ", "audit_mechanism", "model", repr(mechanism), **more)
    script.python.append("print(found)")
    return script.to_dict()


def leakage(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for leakage shows."""
    script = Script()
    more = {name: request[name] for name in ("length", "dp_epsilon", "query")} | {"adversary": _adversary(request)}
    if model is not None:
        script.run("leakage", _model(script, model, None), **more)
        script.call("found = ", "leakage_of", "model", **more)
        script.python.append("print(found)")
        return script.to_dict()
    rows = two_states(request["stay"])
    chain = json.dumps({"type": "markov_chain", "transition": rows})
    script.shell.append(f"echo {shlex.quote(chain)} > chain.json")
    script.run("leakage", "chain.json", **more)
    script.python.append(f"chain = pufferdp.MarkovChain(transition={rows!r})")
    script.call("found = ", "leakage_of", "chain", **more)
    script.python.append("print(found)")
    return script.to_dict()


def two_states(stay: Sequence[float] | None) -> list[list[float]]:
    """The chain of the tab for leakage, fair coins by default; 0.1 as people write it, and not 0.09999999999999998."""
    a, b = stay or (0.5, 0.5)
    return [[a, round(1 - a, 12)], [round(1 - b, 12), b]]


def redaction(request: Request, model: Given, data: str | None, lengths: Chains) -> dict[str, str]:
    """What the tab for redaction shows: a design, or with data the redaction and its check."""
    script = Script()
    assert model is not None
    rows = request["private"]
    only_design = "keep" not in request and not any(isinstance(row, str) for row in rows)
    source, column = None if only_design else data, request["column"]
    place = _model(script, model, source)
    guarantee = {"private": ",".join(map(str, rows)), "epsilon": request["epsilon"], "adversary": _adversary(request)}
    if source is None:
        script.run("redact", model=place, **guarantee, length=request["length"])
        script.call("made = ", "plan_redaction", "model", **{**guarantee, "private": rows}, length=request["length"])
    else:
        charge = {"order": request["order"], **_account(request)}
        written = {"out": "redacted.csv", "certificate": "c.json"}
        keep = request.get("keep", [])
        script.run("redact", source, model=place, column=column, **guarantee, keep=keep, **charge, **written)
        script.run("verify", "c.json")
        out: dict[str, Any] = {
            "column": column,
            **guarantee,
            "keep": keep or None,
            **charge,
            "private": rows,
            "out": "redacted.csv",
        }
        script.call("made = ", "redact", repr(source), "model=model", **out)
    script.python.append("print(made)")
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


def _model(script: Script, model: SessionModel, data: str | None) -> str:
    """The lines that bring the model: the demo's, a fit, or a file that is there."""
    if any(name is not None and name.startswith(TOUR + "/") for name in (data, model.name)):
        script.shell.append(f"pufferdp demo --out {TOUR} --overwrite")
    if model.fit is None:
        script.python.append(f"model = pufferdp.load_model({model.name!r})")
        return model.name
    reading = {k: v for k, v in model.fit["reading"].items() if not (k == "missing" and v == "refuse")}
    more = {name: model.fit[name] for name in ("bins", "confidence")}
    script.run("fit", model.fit["source"], **reading, **more, out=model.name)
    script.call("model = ", "fit", repr(model.fit["source"]), **reading, **more)
    script.python[-1] += ".model"
    return model.name


def _size(request: dict[str, Any], model: SessionModel, lengths: Sequence[Sequence[int]]) -> dict[str, Any]:
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
