"""Options that several verbs share, and how results are printed."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from pufferdp.apps.flags import flags
from pufferdp.apps.outputs import ON_SCREEN, SCREEN, Delivery, Outputs
from pufferdp.basics.errors import ParameterError, PufferdpError
from pufferdp.basics.words import visible

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
Order = Annotated[
    str | None, typer.Option("--order", help="Column to sort by; needed where a column of the data holds times.")
]
RowsInOrder = Annotated[
    bool, typer.Option("--rows-in-order", help="In place of --order: state that the rows are in time order already.")
]
By = Annotated[str | None, typer.Option("--by", help="Column that tells people apart: one independent chain each.")]
Restart = Annotated[
    str | None,
    typer.Option(
        "--restart", help="Treat what follows a longer gap as independent: 8h, or a number in the unit of --order."
    ),
]
Independent = Annotated[
    bool,
    typer.Option(
        "--independent", help="Treat what --by or --restart separates as independent, even if it does not look so."
    ),
]


First = Annotated[
    str | None,
    typer.Option(
        "--from", help="Read from this place of --order on: a number, a date or a time. The series goes on before it."
    ),
]
Last = Annotated[
    str | None,
    typer.Option("--to", help="Read up to and including this place of --order; a date is the whole day."),
]
Missing = Annotated[
    str,
    typer.Option(
        "--missing",
        help="Missing values: reject them (refuse), or keep them as unobserved time steps (keep).",
        autocompletion=_one_of("refuse", "keep"),
    ),
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
Bins = Annotated[
    str | None, typer.Option("--bins", help="Edges that turn numbers into states: 0,200,400 or width:200.")
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
        "--unit", help="What one secret is: hour, day, week, a duration such as 6h, or a number of records in a row."
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


def order_of(order: str | None, rows_in_order: bool) -> str | None:
    """The order of the rows, as the library takes it."""
    if rows_in_order and order is not None:
        raise ParameterError(f"--order {order} and --rows-in-order are both given; use one of them", value=order)
    return "rows" if rows_in_order else order


def out_file(out: str | None, name: str) -> str | None:
    """Where the output goes: the file that is named, or one of this name in the folder that is."""
    return os.path.join(out, name) if out and os.path.isdir(out) else out


def stem(data: str | None) -> str:
    """The name of a file of data without its endings, for names that are made of it."""
    return os.path.basename(data or "").partition(".")[0] or "series"


def numbers(name: str, value: str) -> list[float]:
    """Numbers with commas from the command line."""
    return [number(name, part) for part in value.split(",")]


def epsilon_of(
    value: str, ledger: str | None, dataset: str | None, first: str | None = None, last: str | None = None
) -> float:
    """The guarantee. ``left`` is refused with what is left: a guarantee is read and typed, never guessed."""
    if value.strip() != "left":
        return guaranteed(value)
    if ledger is None or dataset is None:
        raise ParameterError("epsilon is 'left'; it must be a number, and no ledger says what is left", value=value)
    from pufferdp.basics.checks import MOST_RECORDS
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.ledger.refusals import down

    with Ledger(ledger) as budget_ledger:
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


def distance_of(value: str | None) -> str | float | None:
    """A duration, or a number in the order column's unit."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        return value


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


def balance_text(ledger: str | None, dataset: str | None) -> str:
    """A line about where the data set stands after a release that was charged; nothing where none was."""
    if ledger is None or dataset is None:
        return ""
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.report.pages.ledger import balance_words
    from pufferdp.report.text import blocks_text

    try:
        with Ledger(ledger) as budget_ledger:
            return blocks_text([balance_words(budget_ledger.dataset(dataset))]) + "\n"
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
        """The whole answer."""


def deliver(
    result: Certified,
    outputs: Outputs,
    progress: Callable[[str], None],
    draw: Callable[[dict[str, Any], Path], None],
    account: tuple[str | None, str | None],
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
        account: the ledger and the data set, where it was charged.
        out: the file, as it was named.
        as_json: whether JSON is shown.
        signer: who signs the certificate, where anybody does.
    """
    content = outputs.content_of(result)
    content |= outputs.signature(signer, content["certificate"])
    with outputs.delivery(content, content["certificate"].get("ledger"), published=True) as delivery:
        delivery.json("out", content)
        delivery.show(
            content, lambda: f"{result}\n{balance_text(*account)}{kept_text(out, delivery)}".rstrip(), as_json
        )
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
        """End, and clear the line."""
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
