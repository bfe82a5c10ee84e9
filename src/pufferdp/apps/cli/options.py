"""Options that several verbs share, and how results are printed."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, get_args, get_type_hints

import typer

from pufferdp.apps.flags import flags
from pufferdp.apps.outputs import ON_SCREEN, SCREEN, Delivery, Outputs
from pufferdp.basics.errors import ParameterError, PufferdpError
from pufferdp.basics.words import visible
from pufferdp.data.reading_options import Option, ReadingOptions

if TYPE_CHECKING:
    from pufferdp.publish.signatures import Signer


def _one_of(*words: str) -> Callable[[str], list[str]]:
    """The words that a shell offers for an option of which they are all."""

    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


Data = Annotated[
    str,
    typer.Argument(
        help="CSV or Parquet file, a folder or pattern of them, FILE.sqlite::TABLE, or postgresql://…?table=NAME."
    ),
]
Column = Annotated[
    str, typer.Option("--column", help="Column with states or numbers; a,b reads two as pairs (fit, release).")
]
Queries = Annotated[
    list[str],
    typer.Option(
        "--query",
        help="count:STATE, histogram, frequency, sum, mean, variance, quantile:.5,.9, median, min, max, transitions or "
        "cross; several make a table.",
    ),
]
Per = Annotated[
    list[str] | None,
    typer.Option("--per", help="A row for each person of --by, value of a public column, day, hour or week."),
]
Split = Annotated[
    str | None, typer.Option("--split", help="How several queries share the DP loss: 2,1,1; equally by default.")
]
Sizes = Annotated[
    str,
    typer.Option("--sizes", help="Records of each group of a table: exact publishes the number, hidden leaves it out."),
]
Clip = Annotated[tuple[str, str] | None, typer.Option("--clip", help="Range of the numbers of a sum or mean.")]
SecretsFile = Annotated[
    str | None,
    typer.Option(
        "--secrets", help="A file (JSON) with secrets of your own and their pairs; by default every record is one."
    ),
]
Epsilon = Annotated[str, typer.Option("--epsilon", help="The guarantee: odds shift by at most e^epsilon.")]
AdversaryName = Annotated[
    str,
    typer.Option(
        "--adversary",
        help="Who the guarantee is for: bdp (knows any records), pufferfish (none), dp (all others).",
        autocompletion=_one_of("bdp", "pufferfish", "dp"),
    ),
]
SecretText = Annotated[
    str | None,
    typer.Option("--secret", help="One secret: ever:STATE:FROM..TO (at some time), or all:FROM..TO (all of it)."),
]
UnitName = Annotated[
    str | None,
    typer.Option(
        "--unit",
        help="What one secret is: hour, day, week, a duration such as 6h, a number of records in a row, or person.",
    ),
]
Eta = Annotated[str, typer.Option("--eta", help="Radius of the orbit: how far rows of the chain may differ.")]
Tau = Annotated[str, typer.Option("--tau", help="The guarantee: total variation between two releases, below 1.")]
PrivacyName = Annotated[
    str,
    typer.Option(
        "--privacy",
        help="What is hidden: orbit (the chain), record (one step) or joint (each).",
        autocompletion=_one_of("orbit", "record", "joint"),
    ),
]
Sum = Annotated[bool, typer.Option("--sum", help="Add up the noise for both parts of joint, as the poster does.")]
CentreOnly = Annotated[
    bool,
    typer.Option("--centre-only", help="Protect records of data made by the model itself, not by its whole orbit."),
]
Delta = Annotated[
    str | None,
    typer.Option("--delta", help="The delta of an (epsilon, delta) guarantee: lets Gaussian noise compete."),
]
Beta = Annotated[str, typer.Option("--beta", help="Accuracy is shown at probability 1-beta.")]
LedgerPlace = Annotated[
    str | None, typer.Option("--ledger", help="Ledger to charge before noise is drawn: a file, or postgresql://…")
]
DatasetName = Annotated[str | None, typer.Option("--dataset", help="Data set of the ledger.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
MechanismName = Annotated[
    str | None, typer.Option("--mechanism", help="A mechanism by its name in the plan; the best by default.")
]
Seed = Annotated[str | None, typer.Option("--seed", help="For experiments only: noise that anyone can repeat. Unsafe.")]
FigureFile = Annotated[str | None, typer.Option("--figure", help="Write a figure to this .png, .svg or .pdf file.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", help="Write a report to this .html file, with the certificate inside.")
]
AcceptMisfit = Annotated[
    bool,
    typer.Option("--accept-misfit", help="Release although the data contradict the model; the certificate states it."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that already exist; never an input or the ledger.")
]


Rows = ReadingOptions


@dataclass(frozen=True, kw_only=True)
class Account:
    """Where a release is charged."""

    ledger: LedgerPlace = None
    dataset: DatasetName = None


@dataclass(frozen=True, kw_only=True)
class CheckedAccount(Account):
    """Where a release is charged, and whether it is made although the data contradict the model."""

    accept_misfit: AcceptMisfit = False


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is drawn, written and printed of a result."""

    figure: FigureFile = None
    report: ReportFile = None
    overwrite: Overwrite = False
    seed: Seed = None
    as_json: AsJson = False


def _typer_option(kind: Any) -> Any:
    """The type of an option that the data layer declares, as typer reads it; any other type as it is."""
    declared = next((each for each in get_args(kind)[1:] if isinstance(each, Option)), None)
    if declared is None:
        return kind
    words = _one_of(*declared.choices) if declared.choices else None
    return Annotated[get_args(kind)[0], typer.Option(declared.flag, help=declared.help, autocompletion=words)]


def expanded(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb whose groups of options, which are dataclasses, are parameters one by one, as typer reads them."""
    parameters, groups = list[Parameter](), dict[str, Any]()
    for name, parameter in signature(verb, eval_str=True).parameters.items():
        if not is_dataclass(parameter.annotation):
            kind = _typer_option(parameter.annotation)
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[name] = group = parameter.annotation
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = Parameter.empty if field.default is MISSING else field.default
            kind = _typer_option(hints[field.name])
            parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    def run(**given: Any) -> None:
        made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        verb(**given, **made)

    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(run)["__signature__"] = Signature(parameters)
    return run


def number(name: str, value: str) -> float:
    """A number from the command line, or a refusal that names the option."""
    try:
        return float(value)
    except ValueError:
        raise ParameterError(f"{name} is {value!r}; it must be a number", value=value) from None


LARGE_EPSILON: Final = 20.0
"""Above this a guarantee says next to nothing; see docs/decisions/index.md."""


def guaranteed(value: str) -> float:
    """The epsilon of a guarantee; warns on stderr where it guarantees next to nothing."""
    epsilon = number("epsilon", value)
    if LARGE_EPSILON < epsilon < math.inf:
        warn(
            f"epsilon is {epsilon:g}; odds may shift by a factor of e^{epsilon:g}, which guarantees next to nothing: "
            "usual values lie between 0.1 and 5"
        )
    return epsilon


def warn_of_formulas(path: str) -> None:
    """Warn on stderr where a spreadsheet would run texts of a written series as formulas."""
    from pufferdp.data.rewrite import formula_warning

    with suppress(PufferdpError, OSError):  # the series is delivered already, whatever is found in it
        if words := formula_warning(path):
            warn(f"{path!r}: {words}")


def warn(text: str) -> None:
    """Print a warning on stderr, where there is one."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(f"pufferdp: warning: {visible(flags(text))}", file=sys.stderr, flush=True)


def out_file(out: str | None, name: str) -> str | None:
    """Where the output goes: the file that is named, or one of this name in the folder that is."""
    return os.path.join(out, name) if out and os.path.isdir(out) else out


def stem(data: str | None) -> str:
    """The name of a file of data without its endings, for names that are made of it."""
    return os.path.basename(data or "").partition(".")[0] or "series"


def numbers(name: str, value: str) -> list[float]:
    """Numbers with commas from the command line."""
    return [number(name, part) for part in value.split(",")]


def epsilon_of(value: str, account: Account, rows: Rows) -> float:
    """The guarantee. ``left`` is refused with what is left: a guarantee is read and typed, never guessed."""
    if value.strip() != "left":
        return guaranteed(value)
    dataset, first, last = account.dataset, rows.first, rows.last
    if account.ledger is None or dataset is None:
        raise ParameterError("epsilon is 'left'; it must be a number, and no ledger says what is left", value=value)
    from pufferdp.basics.checks import MOST_RECORDS
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.ledger.refusals import down

    with Ledger(account.ledger) as budget_ledger:
        longest = budget_ledger.dataset(dataset).longest or MOST_RECORDS
        ranges = budget_ledger.ranges(dataset, first=first, last=last, otherwise="order")
        remaining = budget_ledger.remaining(
            dataset, ranges, longest if first is None and last is None else MOST_RECORDS
        )
    fits = "no release fits"
    if remaining.epsilon is not None:
        fits = f"--epsilon {remaining.epsilon:.10g} --mechanism {remaining.mechanism} fits"
    raise ParameterError(
        f"epsilon is 'left'; it must be a number. Data set {dataset!r} has {down(remaining.dp_loss)} of DP loss left "
        f"for these records: {fits}",
        value=value,
    )


def pair(value: tuple[str, str] | None) -> tuple[float, float] | None:
    """A clipping range from the command line."""
    return None if value is None else (number("lower clip", value[0]), number("upper clip", value[1]))


def sampler_of(seed: str | None) -> Any:
    """Where noise comes from: None stands for the operating system."""
    if seed is None:
        return None
    from pufferdp.basics import checks
    from pufferdp.publish.noise import SeededSampler

    return SeededSampler(checks.length(seed, "seed", least=0))


def show(result: dict[str, Any], text: str, as_json: bool) -> None:
    """One JSON object for machines, or text for people, of a verb that writes nothing else."""
    with Outputs({}).delivery(result) as delivery:
        delivery.show(result, lambda: text, as_json)


def balance_text(account: Account) -> str:
    """A line about where the data set stands after a release that was charged; nothing where none was."""
    if account.ledger is None or account.dataset is None:
        return ""
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.report.pages.ledger import balance_words
    from pufferdp.report.text import blocks_text

    try:
        with Ledger(account.ledger) as budget_ledger:
            return blocks_text([balance_words(budget_ledger.dataset(account.dataset))]) + "\n"
    except PufferdpError as error:  # the release is made, and is shown all the same
        return f"What is left of the budget could not be read: {error}.\n"


def kept_text(path: str | None, delivery: Delivery, option: str = "out") -> str:
    """Where the certificate is; nothing where it could not be written."""
    if path is None:
        return f"Keep the certificate with --{option} FILE."
    return f"Certificate: {path}" if delivery.has(option) else ""


class Certified(Protocol):
    """What a verb published, with its certificate."""

    def to_dict(self) -> dict[str, Any]:
        """The option for the file of the whole answer."""


def deliver(
    result: Certified,
    outputs: Outputs,
    progress: Callable[[str], None],
    draw: Callable[[dict[str, Any], Path], None],
    account: Account,
    out: str | None,
    as_json: bool,
    signer: Signer | None = None,
) -> None:
    """Bring an answer to its owner: the file first, then what is shown, then the figure and the report.

    Args:
        result: the answer.
        outputs: where it goes.
        progress: told what is going on.
        draw: makes the figure of a certificate.
        account: where it was charged.
        out: the file, as it was named.
        as_json: whether JSON is shown.
        signer: who signs the certificate, where anybody does.
    """
    content = outputs.content_of(result)
    content |= outputs.signature(signer, content["certificate"])
    with outputs.delivery(content, content["certificate"].get("ledger"), published=True) as delivery:
        delivery.json("out", content)
        delivery.show(content, lambda: f"{result}\n{balance_text(account)}{kept_text(out, delivery)}".rstrip(), as_json)
        progress("drawing")
        delivery.write("figure", lambda path: draw(content["certificate"], path))
        progress("writing the report")
        delivery.report(result)


Share = Callable[[], float | None]
"""How much of what is going on is done, from 0 to 1; None where nobody knows."""


def _bar(share: float | None, width: int = 24) -> str:
    if share is None:
        return ""
    done = round(share * width)
    return f" [{'#' * done}{'.' * (width - done)}] {share:4.0%}"


class Progress:
    """Says on stderr what is going on, once it has been going on for two seconds."""

    def __init__(self, stream: Any, share: Share | None = None) -> None:
        self._share = share or (lambda: None)
        self._stream, self._began, self._words, self._lock = stream, time.monotonic(), "", threading.Lock()
        self._done, self._shown = threading.Event(), False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __call__(self, words: str) -> None:
        """Say what begins now; it is shown once it takes long."""
        with self._lock:
            self._words = words

    def _watch(self) -> None:
        wait, last = 2.0, ""
        while not self._done.wait(wait):
            wait = 0.5
            with self._lock:
                words = self._words
            live = self._stream.isatty()
            with SCREEN:
                if live:
                    self._say(f"\r\x1b[K{words}{_bar(self._share())} … {time.monotonic() - self._began:.0f} s")
                elif words != last:  # not a terminal: one line a step
                    self._say(f"{words} …\n")
                last, self._shown = words, live

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # what nobody can read stops no work
            self._stream.write(text)
            self._stream.flush()

    def start(self) -> None:
        """Begin to watch, in a thread of its own; nobody watches where stderr is closed."""
        if self._stream is not None:
            ON_SCREEN.append(self._wipe)
            self._thread.start()

    def stop(self) -> None:
        """End the progress and clear its line."""
        self._done.set()
        if self._stream is not None:
            self._thread.join()
            ON_SCREEN.remove(self._wipe)
        self._wipe()

    def _wipe(self) -> None:
        if self._shown:
            self._say("\r\x1b[K")
            self._shown = False


@contextmanager
def progress(share: Share | None = None) -> Iterator[Progress]:
    """Progress on stderr for anything over two seconds; ``share`` makes it a bar."""
    watch = Progress(sys.stderr, share)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def rows(texts: list[str]) -> list[int]:
    """Row numbers from the command line: 5, or 100-111, or several with commas."""
    from pufferdp.publish.redaction.private import read_rows

    return [row for text in texts for part in text.split(",") for row in read_rows(part)]
