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
Chains = Sequence[Sequence[int]]


@dataclass
class Script:
    """Lines of both languages, side by side, for a request of the page."""

    request: Request
    model: SessionModel | None = None
    data: str | None = None
    """The name of the file that the request is about."""
    lengths: Chains = ()
    """Lengths of the chains in it, and how many have each."""
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

    def plan(self, function: str, place: str, /, **options: object) -> None:
        """Add a plan, where the chains can be listed; otherwise say why there is none."""
        size = self._size()
        if len(size.get("lengths", ())) <= MOST_CHAINS:
            self.run("plan", place, **({"query": "flow"} if function == "plan_flow" else {}), **size, **options)
            self.call("found", function, "model", **size, **options)
            return
        for lines in (self.shell, self.python):
            lines.append("# plan would need the length of every chain here; release counts them itself")

    def publish(self, verb: str, place: str, files: dict[str, str], **options: object) -> None:
        """Add a command and a call that publish something from the data; ``files`` are for the command alone."""
        named = self.request.get("dataset")
        options |= {"ledger": self.request.get("ledger") if named else None, "dataset": named}
        self.run(verb, self.data, model=place, **options, **files)
        self.call("made", verb, repr(self.data), "model=model", **options)

    def check(self, file: str) -> None:
        """Verify what was published."""
        self.run("verify", file)
        self.python.append("print(pufferdp.verify(made.certificate).valid)")

    def place(self, data: str | None = None) -> str:
        """Where the model lies, after the lines that bring it: the demo's, a fit, or a file that is there."""
        model = self.model
        assert model is not None
        if any(name is not None and name.startswith(TOUR + "/") for name in (data, model.name)):
            self.shell.append(f"pufferdp demo --out {TOUR} --overwrite")
        if model.fit is None:
            self.python.append(f"model = pufferdp.load_model({model.name!r})")
            return model.name
        more = {**_reading(model.fit), **{name: model.fit[name] for name in ("bins", "confidence")}}
        self.run("fit", model.fit["source"], **more, out=model.name)
        self.call("fitted", "fit", repr(model.fit["source"]), **more)
        self.python[-1] = "model = fitted.model"
        return model.name

    def asked(self, *names: str) -> dict[str, Any]:
        """What was asked for, by name; the usual adversary goes without saying."""
        given = {name: self.request.get(name) for name in names}
        if clip := given.get("clip"):
            given["clip"] = tuple(clip)
        if given.get("adversary") == "bdp":
            given["adversary"] = None
        return given

    def _size(self) -> dict[str, Any]:
        assert self.model is not None
        if self.model.content["type"] not in CHAINS and "largest" not in self.model.content:
            return {}  # other models know their records
        if self.request["data"] is None:
            return self.asked("length")
        if len(self.lengths) == 1 and self.lengths[0][1] == 1:
            return {"length": self.lengths[0][0]}
        return {"lengths": [length for length, count in self.lengths for _ in range(count)]}


def script_of(job: str, request: Request, model: SessionModel | None, data: str | None, lengths: Chains) -> Any:
    """The command line and the Python for the result of a job."""
    script = Script(request, model, data, lengths)
    SCRIPTS[job](script)
    return script.to_dict()


def plan(script: Script) -> None:
    """What the tab for planning shows: plan, and with data release and verify."""
    place, asked = script.place(script.data), script.asked("query", "epsilon", "clip", "adversary")
    script.plan("plan", place, **asked)
    if script.data is not None:
        more = {**_reading(script.request), **asked, **script.asked("id", "mechanism")}
        script.publish("release", place, {"out": "release.json", "report": "report.html"}, **more)
        script.check("release.json")


def table(script: Script) -> None:
    """What the tab for tables shows: its plan, and with data the table and its check."""
    place, queries, per = script.place(script.data), script.request["queries"], script.request["per"] or None
    query = queries if len(queries) > 1 else queries[0]
    asked = {"query": query, "per": per, **script.asked("clip", "epsilon", "adversary", "split")}
    tabled = asks_table(query, per)
    script.plan("plan_table" if tabled else "plan", place, **asked)
    if script.data is not None:
        out, certificate = ("table.csv", "table.certificate.json") if tabled else ("release.json", "release.json")
        script.publish("release", place, {"out": out, "report": "report.html"}, **_reading(script.request), **asked)
        script.check(certificate)


def flip(script: Script) -> None:
    """What the tab for flips shows: the design, or with data the series, its check and what can be estimated."""
    place, asked = script.place(script.data), script.asked("epsilon", "adversary")
    if script.data is None:
        script.run("flip", model=place, **asked, **script.asked("length"))
        script.call("design", "design_flips", "model", **asked, **script.asked("length"))
        return
    more = {**_reading(script.request), **asked, "out": "flipped.csv"}
    script.publish("flip", place, {"certificate": "certificate.json"}, **more)
    script.run("estimate", "flipped.csv", certificate="certificate.json")
    script.python.append('print(pufferdp.estimate("flipped.csv", made.certificate))')


def flow(script: Script) -> None:
    """What the tab for flows shows: the plan, and with data the flow and its check."""
    place, asked = script.place(script.data), script.asked("eta", "tau", "privacy")
    asked |= {"privacy": None} if asked["privacy"] == "joint" else {}
    script.plan("plan_flow", place, **asked)
    if script.data is not None:
        files = {"out": "flow.json", "report": "report.html"}
        script.publish("flow", place, files, **_reading(script.request), **asked)
        script.check("flow.json")


def stream(script: Script) -> None:
    """What the tab for streams shows."""
    place, more = script.place(), script.asked("length", "adversary")
    target, losses = script.request["target"], None
    if target is None:
        losses = script.request["losses"]
        script.call("found", "stream_leakage", "model", epsilons=losses[0] if len(losses) == 1 else losses, **more)
    else:
        script.call("found", "stream_budget", "model", target=target, **more)
    script.run("leakage", place, stream=losses, stream_target=target, **more)


def audit(script: Script) -> None:
    """What the tab for audits shows."""
    more = script.asked("mechanism", "length", "dp_epsilon", "seconds", "adversary", "clip")
    script.ask("audit", "audit_mechanism", script.place(), **more)


def leakage(script: Script) -> None:
    """What the tab for leakage shows."""
    place = "chain.json"
    if script.model is None:
        rows = two_states(script.request["stay"])
        chain = json.dumps({"type": "markov_chain", "transition": rows})
        script.shell.append(f"echo {shlex.quote(chain)} > {place}")
        script.python.append(f"model = pufferdp.MarkovChain(transition={rows!r})")
    else:
        place = script.place()
    script.ask("leakage", "leakage_of", place, **script.asked("length", "dp_epsilon", "query", "adversary"))


def two_states(stay: Sequence[float] | None) -> list[list[float]]:
    """The chain of the tab for leakage, fair coins by default; 0.1 as people write it, and not 0.09999999999999998."""
    a, b = stay or (0.5, 0.5)
    return [[a, round(1 - a, 12)], [round(1 - b, 12), b]]


def redaction(script: Script) -> None:
    """What the tab for redaction shows: a design, or with data the redaction and its check."""
    request, asked = script.request, script.asked("private", "epsilon", "adversary")
    by_row = "keep" not in request and not any(isinstance(row, str) for row in request["private"])
    if script.data is None or by_row:
        script.run("redact", model=script.place(), **asked, **script.asked("length"))
        script.call("made", "plan_redaction", "model", **asked, **script.asked("length"))
        return
    place = script.place(script.data)
    more = {"column": request["column"], **asked, "keep": request.get("keep") or None, "order": request["order"]}
    script.publish("redact", place, {"certificate": "c.json"}, **more, out="redacted.csv")
    script.run("verify", "c.json")


def ledger(place: str | None) -> dict[str, str]:
    """What the tab for the ledger shows; without a ledger, how to create one."""
    script = Script({})
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


SCRIPTS: Final[dict[str, Callable[[Script], None]]] = {
    **{"plan": plan, "table_plan": table, "table": table, "flip_plan": flip, "flip": flip},
    **{"flow_plan": flow, "flow": flow, "leakage": leakage, "stream": stream, "audit": audit},
    **{"design": redaction, "redact": redaction},
}
"""By the job whose result they stand beside."""


def _reading(request: Request) -> dict[str, Any]:
    """How rows are read; defaults go without saying."""
    return {k: v for k, v in request["reading"].items() if not (k == "missing" and v == "refuse")}


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
