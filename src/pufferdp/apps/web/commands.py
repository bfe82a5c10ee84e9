"""The command line and the Python that do what a room shows. A test runs them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pufferdp.apps.web.session import KeptModel

TOUR: Final = "pufferdp-demo"
"""Folder that the demo writes, with the bundled example in it."""
CHAINS: Final = ("markov_chain", "markov_class", "binary_interval", "markov_interval")
WIDTH: Final = 88
MOST_CHAINS: Final = 500
"""More chains than this are not listed one by one."""


@dataclass
class Script:
    """Lines of both languages, side by side."""

    shell: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=lambda: ["import pufferdp", ""])

    def to_dict(self) -> dict[str, str]:
        """As the page shows it."""
        return {"shell": "\n".join(self.shell), "python": "\n".join(self.python)}

    def run(self, verb: str, *words: object, **options: object) -> None:
        """A command line; options that are None are left out."""
        parts = ["pufferdp", *verb.split(), *(shlex.quote(str(word)) for word in words)]
        for name, value in options.items():
            if value is not None:
                values = value if isinstance(value, tuple) else (value,)
                parts += [f"--{name.replace('_', '-')}", *(shlex.quote(_text(one)) for one in values)]
        self.shell.append(_folded(parts))

    def call(self, target: str, function: str, *first: str, **options: object) -> None:
        """A line of Python."""
        given = [*first, *(f"{name}={value!r}" for name, value in options.items() if value is not None)]
        line = f"{target}pufferdp.{function}({', '.join(given)})"
        if len(line) > WIDTH:
            line = f"{target}pufferdp.{function}(\n    " + ",\n    ".join(given) + ",\n)"
        self.python.append(line)


def plan(asked: dict[str, Any], model: KeptModel, data: str | None, lengths: Sequence[Sequence[int]]) -> dict[str, str]:
    """What the first room shows."""
    script = Script()
    place, source = _model(script, model, data), data
    size = _size(asked, model, lengths)
    clip = tuple(asked["clip"]) if asked["clip"] else None
    promise = {"epsilon": asked["epsilon"], "adversary": _adversary(asked)}
    if "lengths" in size and len(size["lengths"]) > MOST_CHAINS:
        script.shell.append("# plan would need the length of every chain here; release counts them itself")
        script.python.append("# plan would need the length of every chain here; release counts them itself")
    else:
        listed = {name: ",".join(map(str, v)) if isinstance(v, list) else v for name, v in size.items()}
        script.run("plan", place, query=asked["query"], **listed, clip=clip, **promise)
        script.call("plan = ", "plan", "model", repr(asked["query"]), **size, clip=clip, **promise)
        script.python.append("print(plan)")
    if source is not None:
        _release(script, asked, place, source)
    return script.to_dict()


def _release(script: Script, asked: dict[str, Any], place: str, source: str) -> None:
    reading = {k: v for k, v in asked["reading"].items() if not (k == "missing" and v == "refuse")}
    more = {
        "id": asked["id"],
        "query": asked["query"],
        "clip": tuple(asked["clip"]) if asked["clip"] else None,
        "epsilon": asked["epsilon"],
        "adversary": _adversary(asked),
        "mechanism": asked.get("mechanism"),
        "ledger": asked.get("ledger") if asked.get("dataset") else None,
        "dataset": asked.get("dataset"),
    }
    script.run("release", source, model=place, **reading, **more, out="release.json", report="report.html")
    script.run("verify", "release.json")
    script.call("made = ", "release", repr(source), "model=model", **reading, **more)
    script.python += ["print(made)", "print(pufferdp.verify(made.certificate).valid)"]


def leakage(asked: dict[str, Any]) -> dict[str, str]:
    """What the second room shows."""
    script = Script()
    rows = two_states(asked["stay"])
    chain = json.dumps({"type": "markov_chain", "transition": rows})
    script.shell.append(f"echo {shlex.quote(chain)} > chain.json")
    more = {name: asked[name] for name in ("length", "dp_epsilon", "query")} | {"adversary": _adversary(asked)}
    script.run("leakage", "chain.json", **more)
    script.python.append(f"chain = pufferdp.MarkovChain(transition={rows!r})")
    script.call("found = ", "leakage_of", "chain", **more)
    script.python.append("print(found)")
    return script.to_dict()


def two_states(stay: Sequence[float]) -> list[list[float]]:
    """The chain of the second room, with numbers as people write them: 0.1 and not 0.09999999999999998."""
    a, b = stay
    return [[a, round(1 - a, 12)], [round(1 - b, 12), b]]


def redaction(asked: dict[str, Any], model: KeptModel, data: str | None, column: str | None) -> dict[str, str]:
    """What the third room shows."""
    script = Script()
    place, source = _model(script, model, data), data
    rows = asked["private"]
    promise = {"private": ",".join(map(str, rows)), "epsilon": asked["epsilon"], "adversary": _adversary(asked)}
    if source is None:
        script.run("redact", model=place, **promise, length=asked["length"])
        script.call("made = ", "plan_redaction", "model", **{**promise, "private": rows}, length=asked["length"])
    else:
        kept = {"ledger": asked["ledger"], "dataset": asked["dataset"]} if asked["dataset"] else {}
        written = {"out": "redacted.csv", "certificate": "c.json"}
        script.run("redact", source, model=place, column=column, **promise, **kept, **written)
        script.run("verify", "c.json")
        out = {"column": column, **promise, **kept, "private": rows, "out": "redacted.csv"}
        script.call("made = ", "redact", repr(source), "model=model", **out)
    script.python.append("print(made)")
    return script.to_dict()


def ledger(place: str | None) -> dict[str, str]:
    """What the fourth room shows."""
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


def _model(script: Script, model: KeptModel, data: str | None) -> str:
    """The lines that bring the model: the demo's, a fit, or a file that is there."""
    if any(name is not None and name.startswith(TOUR + "/") for name in (data, model.name)):
        script.shell.append(f"pufferdp demo --out {TOUR}")
    if model.fit is None:
        script.python.append(f"model = pufferdp.load_model({model.name!r})")
        return model.name
    reading = {k: v for k, v in model.fit["reading"].items() if not (k == "missing" and v == "refuse")}
    more = {name: model.fit[name] for name in ("bins", "confidence")}
    script.run("fit", model.fit["source"], **reading, **more, out=model.name)
    script.call("model = ", "fit", repr(model.fit["source"]), **reading, **more)
    script.python[-1] += ".model"
    return model.name


def _size(asked: dict[str, Any], model: KeptModel, lengths: Sequence[Sequence[int]]) -> dict[str, Any]:
    if model.content["type"] not in CHAINS and "largest" not in model.content:
        return {}  # other models know their records
    if asked["data"] is None:
        return {} if asked["length"] is None else {"length": asked["length"]}
    if len(lengths) == 1 and lengths[0][1] == 1:
        return {"length": lengths[0][0]}
    return {"lengths": [length for length, count in lengths for _ in range(count)]}


def _adversary(asked: dict[str, Any]) -> str | None:
    """The default goes without saying."""
    return None if asked["adversary"] == "bdp" else asked["adversary"]


def _text(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _folded(parts: list[str], width: int = WIDTH) -> str:
    """Lines that fit, with backslashes."""
    lines = [parts[0]]
    for part in parts[1:]:
        new = part.startswith("--") and len(lines[-1]) + len(part) > width - 24
        if new:
            lines.append("  " + part)
        else:
            lines[-1] += " " + part
    return " \\\n".join(lines)
