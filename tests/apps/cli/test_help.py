"""The help of every verb: words of people, none of Python's types, nothing cut off."""

from __future__ import annotations

import importlib

import pytest
import typer
from typer.testing import CliRunner

from pufferdp.apps.verbs import _MODULES, VERBS, command_line


def shown(*words: str) -> str:
    """What the command line prints."""
    result = CliRunner().invoke(command_line(words), [*words, "-h"], terminal_width=80, prog_name="pufferdp")
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_of_verbs_cuts_nothing_off() -> None:
    listed = shown()
    assert "..." not in listed.partition("Commands:")[2]
    for verb, does in VERBS.items():
        assert f"{verb}  " in listed and does in listed


@pytest.mark.parametrize("verb", VERBS)
def test_options_say_what_they_take_in_words(verb: str) -> None:
    module = importlib.import_module(f"pufferdp.apps.cli.{_MODULES.get(verb, verb)}")
    command = getattr(module, verb)
    inner = (
        [c.name or c.callback.__name__ for c in command.registered_commands] if isinstance(command, typer.Typer) else []
    )
    for words in [(verb, name) for name in inner] or [(verb,)]:
        text = shown(*words)
        for type_name in ("<str", "<list", "TEXT..", "{"):
            assert type_name not in text, text


def test_the_tour_speaks_of_options(tmp_path) -> None:
    result = CliRunner().invoke(command_line(["demo"]), ["demo", "--out", str(tmp_path / "tour")])
    assert "see --verbose or --json for the reasons" in result.output
    assert "to_dict" not in result.output
