"""A redacted series as a kind of publication: the design of each chain, its exact leakage and what it costs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import CertificateError, LedgerError, ParameterError
from pufferdp.basics.progress import Progress, silent
from pufferdp.bounds.redaction.design import (
    Block,
    Design,
    RedactionProblem,
    designs_of,
    redactable,
    restrict_to,
    shown_alike,
)
from pufferdp.bounds.redaction.methods import numerical, window
from pufferdp.bounds.redaction.optimal import optimal, redesign_with
from pufferdp.ledger.charge import Charge, redaction
from pufferdp.models.base import Model
from pufferdp.models.chain import MarkovChain, chain_of
from pufferdp.models.files.json import model_digest, model_from_dict
from pufferdp.publish.certificate import REDACTION_SCHEMA
from pufferdp.publish.kind import Kind, Made
from pufferdp.publish.model_checks import CheckedGuarantee
from pufferdp.publish.reading import assumption_text
from pufferdp.publish.redaction.certificate import (
    LISTED,
    ROUNDING,
    EarlierPart,
    RedactionCertificate,
    SeriesPart,
    knows_text,
    public_facts,
    rows_text,
    statement,
)
from pufferdp.publish.stated_reading import stated_lengths

EXACT: Final = "exact leakage: the first release on each side decides, and the two sides add for each pair of values"


@dataclass(frozen=True)
class RedactionMechanism:
    """Turns what is to be hidden into redaction probabilities."""

    name: str
    about: str
    theorem: str
    design: Callable[[RedactionProblem], Design]


REDACTIONS: Final = (
    RedactionMechanism("window", "redacts the fewest records, whatever they hold", EXACT, window),
    RedactionMechanism("3r-numerical", "three regions, the smallest constant probability", EXACT, numerical),
    RedactionMechanism("3r-optimal", "regions, split and probabilities chosen together", EXACT, optimal),
)
"""From the plainest to the best, which is the default."""


def redaction_mechanism(name: str | None) -> RedactionMechanism:
    """The mechanism of this name; the best without one."""
    for mechanism in REDACTIONS:
        if mechanism.name == (name or "3r-optimal"):
            return mechanism
    known = ", ".join(mechanism.name for mechanism in REDACTIONS)
    raise ParameterError(f"method is {name!r}; it must be one of {known}", value=name)


Span = tuple[int, int]
StatedBlock = tuple[int, Sequence[Sequence[float]]]


@dataclass(frozen=True, kw_only=True)
class RedactionRequest:
    """What is to be hidden, and where it is in the data."""

    hiding: RedactionProblem
    """The guarantee for the whole series, by positions."""
    private: tuple[int, ...]
    """The private rows, in the order of their positions."""
    known: tuple[int, ...]
    """Rows that the adversary knows beforehand."""
    chains: tuple[Span, ...]
    """First and last position of each chain with private records."""
    records: int
    """Rows of the series that have a value; utility is a share of these."""
    mark: str
    method: str | None = None
    stated_blocks: Sequence[StatedBlock] | None = None
    """A design that is given: first position and redaction probabilities of each segment that is not all released."""
    earlier: Design | None = None
    """The design of an earlier redaction, to be designed together with."""
    after: EarlierPart | None = None
    """What the certificate says of that one."""
    dataset: str | None = None
    """The data set that this one is charged to."""


Designs = tuple[Design, ...]


class RedactionKind(Kind[RedactionRequest, Designs, RedactionCertificate]):
    """Series published but for what gives private records away."""

    schema = REDACTION_SCHEMA
    certificate = RedactionCertificate
    ledger_kinds = ("window-redaction", "3r")
    row_unprovable: ClassVar[Mapping[str, str]] = {
        "facts.epsilon": "a guarantee may be weaker than what the design leaks",
        "facts.rows": "how many rows there are outside the chains",
        "facts.earlier": "what an earlier redaction leaked; that one has a row of its own",
        "facts.method": "which method found the design",
    }

    def problem(self, certificate: RedactionCertificate, **more: Any) -> RedactionRequest:
        """The guarantee, and the design that was drawn from."""
        c = certificate
        chain, g = redactable(model_from_dict(c.model)), c.guarantee
        redaction_mechanism(c.mechanism.name)
        check_mark(c.mark, chain)
        if len(c.data.private) != len(g.private) or len(c.data.known) != len(g.known):
            raise CertificateError("data must have one position for each private and each known row")
        ordered = c.data.order is not None or c.data.by is not None
        if not ordered and (c.data.private, c.data.known) != (g.private, g.known):
            raise CertificateError(
                "data.private and data.known must be the rows themselves where nothing says another order"
            )
        if c.after is not None and not set(c.after.private) <= set(g.private):
            raise CertificateError("a record that the earlier redaction kept private is private no more")
        check_positions(c.data)
        return RedactionRequest(
            hiding=RedactionProblem(
                chain=chain,
                length=c.data.rows,
                private=tuple(c.data.private),
                epsilon=g.epsilon,
                adversary=checks.adversary(g.adversary),
                known=tuple(c.data.known),
                whole=g.whole is True,
            ),
            private=tuple(g.private),
            known=tuple(g.known),
            chains=stated_spans(c.data.chains),
            records=c.data.records,
            mark=c.mark,
            method=c.mechanism.name,
            stated_blocks=[(block.first, block.redaction_probabilities) for block in c.blocks],
            after=c.after,
            dataset=None if c.ledger is None else c.ledger.dataset,
        )

    def solve(self, problem: RedactionRequest, progress: Progress) -> Designs:
        """The design of each chain: the one that is given, or the best of the method."""
        hiding = problem.hiding
        if problem.stated_blocks is not None:
            method = redaction_mechanism(problem.method).name
            return tuple(designs_of(hiding, method=method, chains=problem.chains, blocks=problem.stated_blocks))
        progress("designing")
        if problem.earlier is not None:
            return (redesign_with(problem.earlier, hiding.private, hiding.epsilon, window=problem.method == "window"),)
        design = redaction_mechanism(problem.method).design
        return tuple(design(restrict_to(hiding, first, last)) for first, last in problem.chains)

    def content(self, problem: RedactionRequest, solution: Designs, made: Made) -> dict[str, Any]:
        """The content of the certificate, made from the designs; refused where they leak more than the guarantee."""
        hiding, after, method = problem.hiding, problem.after, solution[0].method
        leakage = max(design.leakage for design in solution)
        if leakage * (1 - ROUNDING) > hiding.epsilon:
            raise CertificateError(f"the design leaks {leakage:.10g}, more than the epsilon of {hiding.epsilon:.10g}")
        check_kept(made.data)
        guarantee = statement(hiding, problem.known, after=after is not None)
        checked = CheckedGuarantee(model=hiding.chain, epsilon=hiding.epsilon, adversary=hiding.adversary)
        common = self.common(problem, solution, made, hiding.chain, checked=checked)
        return {
            **common,
            "guarantee": {
                "adversary": str(hiding.adversary),
                "knows": knows_text(hiding.adversary, problem.known),
                "epsilon": hiding.epsilon,
                "private": list(problem.private),
                "known": list(problem.known),
                "whole": True if hiding.whole else None,
                "statement": guarantee + assumption_text(made.data) + checked.misfit,
            },
            "mechanism": {"name": method, "theorem": redaction_mechanism(method).theorem},
            "leakage": leakage,
            "utility": 1 - math.fsum(design.redacted for design in solution) / problem.records,
            "blocks": [
                {"first": block.first, "redaction_probabilities": block.marks.tolist()}
                for block in redacted_blocks(problem.chains, solution)
            ],
            "data": {
                **common["data"],
                "rows": hiding.length,
                "private": list(hiding.private),
                "known": list(hiding.known),
                "chains": [list(span) for span in problem.chains],
            },
            "after": None if after is None else after.model_dump(),
            "mark": problem.mark,
            "public": public_facts(hiding.chain, hiding.length, made.data["kept"]),
        }

    def beside(self, certificate: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
        """The guarantee, what it costs, and how likely each value of each row is redacted."""
        guarantee, blocks, data = certificate["guarantee"], certificate["blocks"], certificate["data"]
        problem, kept = self.problem(RedactionCertificate.model_validate(certificate)), data["kept"]
        named = [data[key] for key in ("by", "order", "column") if data[key] is not None]
        repeated = {
            "method": certificate["mechanism"]["name"],
            **{key: guarantee[key] for key in ("epsilon", "adversary", "private", "known")},
            **{key: certificate[key] for key in ("leakage", "utility", "mark", "blocks")},
            "records": data["records"],
            "whole": guarantee.get("whole") is True,
            "kept": kept,
            "states": list(problem.hiding.chain.labels),
            "columns": [*named, *kept],
            "leakage_to": leakage_to_each(self.solve(problem, silent)),
        }
        if data["rows"] > LISTED:
            return {**repeated, "redaction_probabilities": None}
        if not blocks:
            return repeated
        each = [[0.0] * len(blocks[0]["redaction_probabilities"][0])] * data["rows"]
        for block in blocks:
            first, rows = block["first"] - 1, block["redaction_probabilities"]
            each[first : first + len(rows)] = rows
        return {**repeated, "redaction_probabilities": each}

    def charge(self, problem: RedactionRequest, solution: Designs) -> Charge:
        """What it leaks; an earlier redaction that was charged to the same data set is contained in it."""
        hiding, after = problem.hiding, problem.after
        together = (
            after if after is not None and after.dataset is not None and after.dataset == problem.dataset else None
        )
        return redaction(
            window=all(map(shown_alike, solution)),
            leakage=max(design.leakage for design in solution),
            private=rows_text(problem.private),
            longest=max(last - first + 1 for first, last in problem.chains),
            model=model_digest(hiding.chain),
            adversary=str(hiding.adversary),
            facts={
                "method": solution[0].method,
                "epsilon": hiding.epsilon,
                "private": list(problem.private),
                "positions": list(hiding.private),
                "rows": hiding.length,
                "chains": [list(span) for span in problem.chains],
                "blocks": [
                    [block.first, _runs(block.marks.tolist())] for block in redacted_blocks(problem.chains, solution)
                ],
                "earlier": None if together is None else together.leakage,
                **({"whole": True} if hiding.whole else {}),
            },
            together=None if together is None else rows_text(together.private),
        )

    def recompute(self, charge: Charge, model: Model | None) -> Charge | None:
        """From the design that the facts hold; None where there are none."""
        facts = charge.facts
        if not facts or model is None:
            return None
        chain = chain_of(model)
        if chain is None:
            raise LedgerError("a redaction is charged under a model that is no Markov chain")
        redaction_mechanism(facts["method"])
        problem = RedactionRequest(
            hiding=RedactionProblem(
                chain=chain,
                length=facts["rows"],
                private=tuple(facts["positions"]),
                epsilon=facts["epsilon"],
                adversary=checks.adversary(charge.adversary),
                whole=facts.get("whole") is True,
            ),
            private=tuple(facts["private"]),
            known=(),
            chains=stated_spans(facts["chains"]),
            records=facts["rows"],
            mark="",
            method=facts["method"],
            stated_blocks=[
                (checks.length(first, "first row of a block"), [row for count, row in runs for _ in range(count)])
                for first, runs in facts["blocks"]
            ],
        )
        if len(set(problem.private)) != len(problem.private) or len(problem.private) != len(problem.hiding.private):
            raise LedgerError("a redaction has one position for each private row, and no row twice")
        designs = self.solve(problem, silent)
        leakage = max(design.leakage for design in designs)
        if leakage > facts["epsilon"] * (1 + ROUNDING):
            raise LedgerError(f"a redaction guarantees {facts['epsilon']:g}; recomputed it leaks {leakage:.10g}")
        own = self.charge(problem, designs)
        if charge.together is None:
            return own
        return replace(own, together=charge.together, facts={**own.facts, "earlier": float(facts["earlier"])})


KIND: Final = RedactionKind()


def redacted_blocks(chains: Sequence[Span], designs: Sequence[Design]) -> list[Block]:
    """The segments that are not all released, in positions of the series."""
    return [
        Block(first - 1 + block.first, block.marks)
        for (first, _), design in zip(chains, designs, strict=True)
        for block in design.blocks
    ]


def stated_spans(chains: Sequence[Sequence[int]]) -> tuple[Span, ...]:
    """First and last position of each chain; refused where there are no two."""
    for span in chains:
        if len(span) != 2:
            raise CertificateError(f"data.chains holds {span}; it must be the first and the last row of a chain")
    return tuple((span[0], span[1]) for span in chains)


def leakage_to_each(designs: Sequence[Design]) -> dict[str, float | None]:
    """Leakage of designs to an adversary who knows nothing, and to one who may know records; None where it is all."""
    each = {who: max(design.leakage_to(who) for design in designs) for who in (Adversary.PUFFERFISH, Adversary.BDP)}
    return {str(who): leakage if math.isfinite(leakage) else None for who, leakage in each.items()}


def read_designs(raw: dict[str, Any]) -> list[Design]:
    """The designs of a certificate, one for each chain with private records; refused where it does not hold."""
    if raw.get("schema") != REDACTION_SCHEMA:
        raise CertificateError("this is not the certificate of a redaction")
    problems, _ = KIND.verify(raw)
    if problems:
        raise CertificateError(f"the certificate does not hold: {problems[0]}")
    return list(KIND.solve(KIND.problem(RedactionCertificate.model_validate(raw)), silent))


def check_positions(data: SeriesPart) -> None:
    """Reject positions that the records, the missing records and the chains do not have."""
    least, cut = data.records + data.unobserved, data.by is not None or data.gap is not None
    if data.rows < least or (data.rows > least and not data.dropped):
        raise CertificateError(
            f"data.rows is {data.rows}; data.records is {data.records}, data.unobserved {data.unobserved} and "
            f"data.dropped {data.dropped}, so it must be {least}{' or more' * (data.dropped > 0)}"
        )
    if not cut and data.chains != [[1, data.rows]]:
        raise CertificateError(
            f"data.chains is {data.chains}, and nothing cuts the series: no column tells people apart, and no "
            f"gap starts a new chain, so it must be the one chain of rows 1 to {data.rows}"
        )
    sizes = Counter(last - first + 1 for first, last in stated_spans(data.chains))
    strange = sizes - Counter(dict(stated_lengths(data.lengths)))
    if strange and not data.unobserved + data.dropped:
        raise CertificateError(
            f"data.chains is {data.chains}, with more chains of {next(iter(strange))} records than data.lengths, "
            f"{data.lengths}"
        )


def check_kept(data: Mapping[str, Any]) -> None:
    """Refuse kept columns that are written anyway, or twice."""
    named = [data["column"], data["order"], data["by"]]
    for n, name in enumerate(data["kept"]):
        if name in named or name in data["kept"][:n]:
            raise CertificateError(f"data.kept holds {name!r}, which is written already")


def check_mark(mark: str, chain: MarkovChain) -> None:
    """Refuse a mark that could be taken for a value."""
    if not isinstance(mark, str) or not mark.strip() or mark.strip() != mark:
        raise ParameterError(f"mark is {mark!r}; it must be a word without spaces around it", value=mark)
    if mark in chain.labels:
        raise ParameterError(f"mark is {mark!r}, which is a state; choose another word", value=mark)
    try:
        float(mark)
    except ValueError:
        return
    raise ParameterError(f"mark is {mark!r}, a number that could be a value; choose a word", value=mark)


def _runs(marks: list[list[float]]) -> list[Any]:
    """Redaction probabilities, those of alike records once, with how many there are."""
    return [[len(list(group)), row] for row, group in itertools.groupby(marks)]
