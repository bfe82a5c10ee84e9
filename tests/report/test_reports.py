"""Reports: well-formed, escaped, alone, nothing but what the certificate has, and their numbers by enumeration."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pufferdp
from pufferdp.assess.comparison import comparison_of
from pufferdp.basics.errors import CertificateError, ParameterError
from pufferdp.publish.fields import Exact, declared_checks
from pufferdp.publish.kind import kind_of
from pufferdp.report.certificate_table import certificate_table
from pufferdp.report.html import report_html, script_json, write_report
from pufferdp.report.page import Table
from pufferdp.report.registry import page_of
from tests.oracles import flips as flip_oracle
from tests.oracles import leakage as leakage_oracle
from tests.oracles import redaction as redaction_oracle
from tests.report.examples import CERTIFIED, CHAIN, EVIL, SUBJECTS, report, subject

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checked(HTMLParser):
    """Every element is closed where it was opened; attributes that load something are collected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[tuple[str, str, str | None]] = []
        self.scripts: list[dict[str, str | None]] = []
        self.ids: list[str | None] = []
        self.content: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append(dict(attrs))
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "action", "data", "srcset", "poster") and not (value or "").startswith("#"):
                self.loads.append((tag, name, value))
            assert not name.startswith("on")
            assert name == "aria-label" or "url(" not in (value or "") or "url(#" in (value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.content[self.open[-1]] = self.content.get(self.open[-1], "") + data


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_report_stands_alone(name: str) -> None:
    """Whatever the states are called."""
    text = report(name)
    found = Checked(text)
    assert text.startswith("<!doctype html>")
    assert not found.loads
    assert len(found.ids) == len(set(found.ids))
    script, *programs = found.scripts  # data, which no browser runs, and the program that recomputes its hash
    assert programs == ([{}] if name in CERTIFIED else [])
    kind = "certificate" if name in CERTIFIED else "audit" if name == "audit" else "plan"
    assert script == {"type": "application/json", "id": kind}
    assert "url(" not in found.content["style"]
    assert "@import" not in found.content["style"]
    data = json.JSONDecoder().raw_decode(found.content["script"])[0]
    assert data == json.loads(found.content["pre"])
    three = ("The guarantee", "The accuracy", "Comparison with standard DP noise")
    if name == "audit":
        three = ("The claim", "What was found", "The best attacks")
    for heading in (*three, "Limits of the guarantee", "For a reviewer"):
        assert heading in found.content["h2"]
    assert EVIL not in text
    if name not in ("plan", "flow plan"):  # which name no state
        assert EVIL in json.dumps(data, ensure_ascii=False).replace('\\"', '"')


@pytest.mark.slow
@pytest.mark.parametrize("name", CERTIFIED)
def test_a_report_says_nothing_that_the_certificate_does_not(name: str, tmp_path: Path) -> None:
    """It is made from the certificate alone, and so holds no exact answer; and it is verified like one."""
    raw = subject(name, evil=True).certificate.to_dict()
    path = tmp_path / "report.html"
    write_report(raw, path)
    assert path.read_text(encoding="utf-8") == report(name)
    assert pufferdp.read_certificate(path) == json.loads(json.dumps(raw))
    assert pufferdp.verify(pufferdp.read_certificate(path)).valid
    changed = re.sub(r'"(epsilon|tau)": \d', r'"\1": 2', path.read_text(encoding="utf-8"))
    path.write_text(changed, encoding="utf-8")
    assert not pufferdp.verify(pufferdp.read_certificate(path)).valid


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_table_of_a_certificate_follows_from_its_declared_fields(name: str) -> None:
    raw = subject(name).certificate.to_dict()
    table = certificate_table(raw)
    rows = {field: cells for field, *cells in table.rows}
    assert set(raw) <= set(rows)
    assert all(meaning for field, (_, meaning, _) in rows.items() if field != "schema")
    checks = declared_checks(kind_of(raw["schema"]).certificate)
    for field, (_, _, how) in rows.items():
        path = re.sub(r"\.\d+", "", field)  # questions.2.noise is a part of questions
        above = [path.rsplit(".", n)[0] for n in range(path.count(".") + 1)]
        check = next((checks[at] for at in above if at in checks), Exact())
        assert how in ("", "stated" if check.why else type(check).__name__.lower()), field
    assert rows["model_sha256"] == [raw["model_sha256"], "its SHA-256", "exact"]
    assert rows["guarantee.statement"][0].startswith(raw["guarantee"]["statement"][:100])
    assert rows["created"] == [raw["created"], "when it was made", "stated"]


@pytest.mark.slow
def test_which_reports_are_read(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(subject("plan"), path)
    with pytest.raises(CertificateError, match="no certificate"):
        pufferdp.read_certificate(path)
    script = '<script type="application/json" id="certificate">{}</script>'
    path.write_text(f"<!DOCTYPE html>{script}{script}", encoding="utf-8")
    with pytest.raises(CertificateError, match="several"):
        pufferdp.read_certificate(path)
    path.write_text(f"<!DOCTYPE html>{script}", encoding="utf-8")
    with pytest.raises(CertificateError, match="no schema"):
        pufferdp.read_certificate(path)
    path.write_text("<!DOCTYPE html><script id='certificate'>{</script>", encoding="utf-8")
    with pytest.raises(CertificateError, match="not JSON"):
        pufferdp.read_certificate(path)


def test_nothing_ends_the_script_early() -> None:
    evil = {"a": "</script><!--<script>", "b": "]]>&amp;\u2028\u2029"}
    text = script_json(evil)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == evil


def test_a_model_has_a_report() -> None:
    text = report_html(CHAIN)
    assert "Probability of the next state" in text
    assert json.dumps(CHAIN.to_dict()) in text


def test_what_has_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for what in (3, object()):
        with pytest.raises(ParameterError, match="no report"):
            report_html(what)
    with pytest.raises(ParameterError, match="schema is 'other'"):
        report_html({"schema": "other"})
    for name in ("report.txt", "no/report.html"):
        with pytest.raises(ParameterError):
            write_report(subject("plan"), tmp_path / name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"a report needs jinja2; .*\[report\]"):
        write_report(subject("plan"), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


# ---- the numbers of the third part, by enumeration ----


def cells(what: Any) -> dict[str, str]:
    """The table of what leaks otherwise: its first column against its last but one."""
    (section,) = [
        s for s in page_of(what, comparison_of(what)).sections if s.title == "Comparison with standard DP noise"
    ]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    leakage = next(n for n, head in enumerate(table.head) if "leakage" in head)
    return {" | ".join(row[:leakage]): row[leakage] for row in table.rows}


def rounded_up(shown: str, true: float) -> bool:
    """Four digits, never below the truth."""
    return true * (1 - 1e-9) <= float(shown) <= true * (1 + 2e-3)


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_what_plain_dp_leaks_in_a_count(adversary: str) -> None:
    found = cells(pufferdp.plan(CHAIN, "count:active", epsilon=1, length=5, adversary=adversary))
    start = np.asarray(CHAIN.stationary)
    true = leakage_oracle.leakage(CHAIN.transition, start, 5, "count:1", 1.0, everyone=adversary == "bdp")
    assert rounded_up(found["plain DP: count:active with Laplace noise, exactly"], true)
    assert float(found["plain DP: what it claims"]) == 1 < true
    (bound,) = [float(value) for key, value in found.items() if "any algorithm" in key]
    assert bound >= true


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_what_plain_flips_leak(adversary: str) -> None:
    found = cells(pufferdp.design_flips(CHAIN, 2, length=4, adversary=adversary))
    rho = 1 / (1 + math.exp(2))
    channel, start = flip_oracle.flips(rho, rho), np.asarray(CHAIN.stationary)
    true = max(flip_oracle.loss(CHAIN.transition, start, channel, 4, everyone=adversary == "bdp").values())
    assert rounded_up(found["plain randomised response: leaks, exactly"], true)
    assert true > 2


@pytest.mark.parametrize("private", [1, 3])
@pytest.mark.parametrize(("adversary", "knows"), [("pufferfish", "no record"), ("bdp", "any set of other records")])
def test_what_leaks_when_only_the_private_row_is_taken_out(private: int, adversary: str, knows: str) -> None:
    found = cells(pufferdp.plan_redaction(CHAIN, length=5, private=[private], epsilon=1, adversary=adversary))
    marks = np.zeros((5, 2))
    marks[private - 1] = 1
    start = np.asarray(CHAIN.stationary)
    others = [n for n in range(5) if n != private - 1]
    most = 0 if adversary == "pufferfish" else len(others)
    true = max(
        redaction_oracle.leakage(CHAIN.transition, start, marks, private - 1, known)
        for size in range(most + 1)
        for known in itertools.combinations(others, size)
    )
    assert rounded_up(found[f"only the private rows taken out | {knows}"], true)
    assert true > 1


def test_secrets_of_ones_own_and_real_numbers() -> None:
    """DP claims nothing about a user's own secrets, so no table; the clipping width is part of the guarantee."""
    calm = pufferdp.Secret(name="calm", when={"1": "rest", "2": "rest"})
    busy = pufferdp.Secret(name="busy", when={"1": "active", "2": "active"})
    secrets = pufferdp.Secrets(secrets=(calm, busy), pairs=(("calm", "busy"),))
    own = {"adversary": "pufferfish", "secrets": secrets}
    plan = pufferdp.plan(CHAIN, "count:active", epsilon=1, length=4, **own)
    page = page_of(plan, comparison_of(plan))
    assert "the two secrets of any pair" in str(page.sections[0].blocks[0])
    assert not [block for block in page.sections[2].blocks if isinstance(block, Table)]
    heights = pufferdp.Gaussian(mean=[170.0, 170.0], covariance=[[49.0, 24.5], [24.5, 49.0]])
    page = page_of(pufferdp.plan(heights, "sum", epsilon=1, clip=(150, 190)))
    assert "two values of any single record that differ by at most 40" in str(page.sections[0].blocks[0])
