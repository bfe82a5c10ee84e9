"""Messages in the words of the command line: the library speaks of ``order=``, the command line of ``--order``.

Every message names parameters as Python has them; only the edges that people reach by options translate.
"""

from __future__ import annotations

import re
from typing import Any, Final

_OPTIONS: Final = {"first": "from", "last": "to", "add": "sum"}
"""Options that have another name than the parameter."""
_VERBS: Final = {
    "plan_flow()": "pufferdp plan --query flow",
    "plan_table() or release()": "pufferdp plan or release",
    " flow()": " pufferdp flow",
}
_METHODS: Final = {
    "Ledger(place, create=True)": "pufferdp ledger create",
    "text(verbose=True)": "--verbose",
    "Ledger.dataset()": "ledger show",
    "Ledger.verify()": "ledger verify",
    "to_dict()": "--json",
    'fit(clock="hour")': "fit --clock hour",
    'fit(family="hidden")': "fit --family hidden",
    'fit(family="hidden", clock="hour")': "fit --family hidden --clock hour",
    'fit(family="ar1")': "fit --family ar1",
    "order='rows'": "--rows-in-order",
    "check(calibrate='data')": "check --calibrate data",
}
_CALLS: Final = {
    re.compile(r"Ledger\.find\('([^']*)'\)"): r"ledger show --charge \1",
    re.compile(r"Ledger\.verify\(head='([^']*)'\)"): r"ledger verify --head \1",
    re.compile(r"Ledger\.verify\(head=…\)"): "ledger verify --head HEAD",
}
_SUBJECT: Final = re.compile(r"^dp_(?:epsilon|delta)(?= is )")
"""What a message begins with, ``dp_epsilon is -1``; other such words may be keys of a model file."""
_VALUE: Final = r"'(?P<quoted>[^']*)'|\((?P<tuple>[^()]*)\)|\[(?P<list>[^\]]*)\]|(?P<plain>[\w+-]+(?:\.[\w+-]+)*)"
_PARAMETER: Final = re.compile(
    rf"(?<![^\s(])(?P<name>[a-z]\w*)=(?:{_VALUE})?(?![\w='(\[])(?P<more>, (?=[a-z]\w*=[^\s,]))?"
)
"""``order=``, ``missing='keep'``, ``clip=(A, B)``; a comma before the next one with a value belongs to it."""


def flags(message: str) -> str:
    """A message with options in place of parameters: ``use missing='keep'`` says ``use --missing keep``."""
    for verb, command in _VERBS.items():
        message = message.replace(verb, command)
    message = methods(message)
    for call, command in _CALLS.items():
        message = call.sub(command, message)
    message = _SUBJECT.sub(lambda name: name[0].replace("_", "-"), message)
    return _PARAMETER.sub(_flag, message)


def methods(text: str) -> str:
    """A result's text with options in place of methods; all else in it, as names of states, stays as it is."""
    for method, option in _METHODS.items():
        text = text.replace(method, option)
    return text


def advised(content: dict[str, Any]) -> dict[str, Any]:
    """A fit as JSON, whose tests advise in options; states may be called anything and stay as they are."""
    if "tests" not in content:
        return content
    return content | {"tests": [test | {"advice": methods(test["advice"])} for test in content["tests"]]}


def _flag(found: re.Match[str]) -> str:
    name = _OPTIONS.get(found["name"], found["name"]).replace("_", "-")
    value = found["quoted"] or found["plain"] or ""
    if found["tuple"] is not None:
        value = found["tuple"].replace(", ", " ")
    if found["list"] is not None:
        value = found["list"].replace(" ", "").replace("'", "")
    value = "" if value == "True" else value
    return f"--{name}{' ' * bool(value)}{value}{' ' * bool(found['more'])}"
