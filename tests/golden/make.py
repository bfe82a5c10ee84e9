"""Makes the files of this folder again, certificates of each release type and a ledger: python -m tests.golden.make

They show a change of the schema or of a recomputed number that nobody intended. Make them again where it is intended.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import pufferdp
from pufferdp import Charge, FlowBudget, Ledger, MarkovChain, Query
from pufferdp.ledger.history import export_ledger
from pufferdp.models.files.json import model_from_dict, model_to_dict
from pufferdp.publish.noise import SeededSampler

FOLDER: Final = Path(__file__).parent
ROWS: Final = [[0.882, 0.118], [0.305, 0.695]]
CHAIN: Final = MarkovChain(transition=ROWS, states=["rest", "active"])
VALUED: Final = MarkovChain(transition=ROWS, states=["rest", "active"], values=[1, 4])
HOURLY: Final = MarkovChain(transition=[[0.8, 0.2], [0.4, 0.6]], states=["rest", "active"], step="1h")
THREE: Final = MarkovChain(
    transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]],
    states=["sit", "walk", "run"],
    values=[0, 1, 2],
)
BINNED: Final = MarkovChain(transition=ROWS, bins=[0, 10, 40])
NEW_YEAR: Final = datetime(2024, 1, 1)


def path(length: int, states: tuple[str, ...] = ("rest", "active"), seed: int = 1) -> list[str]:
    """A series that stays where it is in four steps of five."""
    draw, at, out = np.random.default_rng(seed), 0, []
    for _ in range(length):
        at = int(draw.integers(len(states))) if draw.random() < 0.2 else at
        out.append(states[at])
    return out


def numbered(length: int, states: tuple[str, ...] = ("rest", "active")) -> pl.DataFrame:
    """A series in the order of whole numbers, with a level that follows the state."""
    steps = path(length, states)
    return pl.DataFrame({"t": range(length), "s": steps, "level": [5.0 + 20 * states.index(s) for s in steps]})


def people(first: int, second: int, states: tuple[str, ...]) -> pl.DataFrame:
    """Two people, one after the other."""
    who, t = ["ann"] * first + ["bob"] * second, [*range(first), *range(second)]
    return pl.DataFrame({"who": who, "t": t, "s": path(first + second, states)})


def hourly(length: int, *lost: int, hours: int = 1) -> pl.DataFrame:
    """A series at whole hours without some of its rows."""
    times = [NEW_YEAR + timedelta(hours=n * hours) for n in range(length)]
    frame = pl.DataFrame({"t": times, "s": path(length), "bpm": [60.0 + n % 40 for n in range(length)]})
    return frame.filter(~pl.int_range(pl.len()).is_in(list(lost)))


def shared() -> pl.DataFrame:
    """Two people of four days, the second with a day off."""
    frame = hourly(96)
    bob = frame.with_row_index("n").filter((pl.col("n") < 40) | (pl.col("n") > 60)).drop("n")
    return pl.concat([frame.with_columns(who=pl.lit("ann")), bob.with_columns(who=pl.lit("bob"))])


NUMBERS: Final = numbered(60)
PAIR: Final = people(40, 50, THREE.labels)
READ: Final[dict[str, Any]] = {"column": "s", "order": "t"}


def answer(data: Any, model: Any, query: Any, **more: Any) -> Any:
    return pufferdp.release(
        data, model=model, query=query, **{"epsilon": 1.0, "sampler": SeededSampler(7), **READ, **more}
    )


def by_id(content: dict[str, Any], values: list[Any], names: list[str], query: str, **more: Any) -> Any:
    frame = pl.DataFrame({"v": values, "id": names})
    return answer(frame, model_from_dict(content), query, column="v", id="id", **{"order": None, **more})


def flipped(data: Any, model: Any, **more: Any) -> Any:
    return pufferdp.flip(data, model=model, **{"epsilon": 1.0, "sampler": SeededSampler(7), **READ, **more})


def redacted(private: list[int], method: str, data: Any = NUMBERS, model: Any = CHAIN, **more: Any) -> Any:
    options: dict[str, Any] = {"epsilon": 1.0, "sampler": SeededSampler(7), **READ, **more}
    return pufferdp.redact(data, model=model, private=private, method=method, **options)


def flowed(data: Any, model: Any, **more: Any) -> Any:
    return pufferdp.flow(data, model=model, sampler=SeededSampler(7), **{**READ, **more})


def measured(gaussian: bool = False, **more: Any) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    metric = "L2Distance<f64>" if gaussian else "L1Distance<i32>"
    count = space >> dp.t.then_count_by_categories(["rest", "active"], null_category=False, MO=metric)
    noisy = count >> (dp.m.then_gaussian(20.0) if gaussian else dp.m.then_laplace(8.0))
    return pufferdp.release(NUMBERS, measurement=noisy, model=CHAIN, **{"epsilon": 1.5, **READ, **more})


def charged(work: Callable[..., Any], **options: Any) -> Any:
    """What is released and charged to a ledger of its own."""
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "books.db", create=True) as ledger:
        ledger.create("week", **{"model": CHAIN, "budget": 9.0, **options})
        return work(ledger=ledger, dataset="week")


def length_of(chains: list[object]) -> float:
    return float(sum(len(list(chain)) for chain in chains))


GAUSSIAN: Final = {
    "type": "gaussian",
    "mean": [0.0] * 3,
    "covariance": [[1, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 1]],
    "records": ["1", "2", "3"],
}
FAMILY: Final = {
    "type": "pedigree",
    "members": [{"id": "1"}, {"id": "2"}, {"id": "3", "father": "1", "mother": "2"}],
    "major_allele_frequency": 0.7,
}
YES: Final = ["yes", "no"]
NETWORK: Final = {
    "type": "bayesian_network",
    "nodes": [
        {"name": "smoke", "states": YES, "parents": [], "table": [0.5, 0.5]},
        {"name": "lung", "states": YES, "parents": ["smoke"], "table": [[0.1, 0.9], [0.01, 0.99]]},
        {"name": "bronc", "states": YES, "parents": ["smoke"], "table": [[0.6, 0.4], [0.3, 0.7]]},
        {
            "name": "dysp",
            "states": YES,
            "parents": ["lung", "bronc"],
            "table": [[[0.9, 0.1], [0.7, 0.3]], [[0.8, 0.2], [0.1, 0.9]]],
        },
    ],
}
CLASS: Final = {
    "type": "markov_class",
    "models": [model_to_dict(CHAIN), {**model_to_dict(CHAIN), "transition": [[0.9, 0.1], [0.2, 0.8]]}],
}
CLOCK: Final = {
    "type": "markov_clock",
    "transitions": [[[0.8, 0.2], [0.4, 0.6]], [[0.5, 0.5], [0.3, 0.7]]],
    "period": "24h",
    "start": "stationary",
    "states": ["rest", "active"],
    "step": "12h",
}
HIDDEN: Final = {
    "type": "hidden_markov",
    "transition": [[0.9, 0.1], [0.2, 0.8]],
    "emission": [[0.8, 0.2], [0.3, 0.7]],
    "start": "stationary",
    "states": ["rest", "active"],
    "step": "1h",
}
AR1: Final = {"type": "ar1", "coefficient": [0.8, 0.9], "mean": 72.0, "sd": 8.0, "step": "1h"}
WIDE: Final = MarkovChain(
    transition=[[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]], states=["rest", "light", "active"]
)

MADE: Final[dict[str, Callable[[], Any]]] = {
    "answer-ar1-gaps": lambda: answer(
        hourly(96, 5, 6, 40), model_from_dict(AR1), "mean", column="bpm", clip=(40, 120), missing="keep"
    ),
    "answer-assumptions": lambda: answer(
        shared(), HOURLY, "count:active", by="who", restart="2h", missing="keep", mechanism="curve-tight"
    ),
    "answer-class": lambda: answer(NUMBERS, model_from_dict(CLASS), "count:active"),
    "answer-clip": lambda: answer(NUMBERS, BINNED, "sum", column="level", clip=(0, 40)),
    "answer-clock-gaps": lambda: answer(
        hourly(8, 3, hours=12), model_from_dict(CLOCK), "histogram", missing="keep", mechanism="curve-tight"
    ),
    "answer-count-exact-laplace": lambda: answer(NUMBERS, CHAIN, "count:active", mechanism="exact-laplace"),
    "answer-fitted": lambda: answer(
        NUMBERS, pufferdp.fit(NUMBERS, **READ).model, "histogram", mechanism="quilt-exact", epsilon=0.1
    ),
    "answer-frequency-balanced": lambda: answer(numbered(144), CHAIN, "frequency", mechanism="exact-laplace"),
    "answer-frequency-curve": lambda: answer(PAIR, THREE, "frequency", by="who", adversary="pufferfish"),
    "answer-function": lambda: answer(
        NUMBERS, CHAIN, Query.of_function(length_of, 1.0, 1), mechanism="quilt-exact"
    ),
    "answer-gaussian": lambda: by_id(GAUSSIAN, [0.1, -0.5, 2.0], ["1", "2", "3"], "sum", clip=(-1, 1)),
    "answer-gaussian-tight": lambda: answer(numbered(288), CHAIN, "histogram", delta=1e-6, mechanism="gaussian-tight"),
    "answer-gk16": lambda: answer(
        NUMBERS,
        MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=CHAIN.labels),
        "count:active",
        mechanism="gk16",
        adversary="pufferfish",
    ),
    "answer-hidden": lambda: answer(hourly(96), model_from_dict(HIDDEN), "count:active", mechanism="curve-odds"),
    "answer-histogram-balanced": lambda: answer(
        numbered(500, THREE.labels), THREE, "histogram", mechanism="quilt-exact"
    ),
    "answer-histogram-quilt-exact": lambda: answer(
        PAIR, THREE, "histogram", by="who", epsilon=2.0, mechanism="quilt-exact"
    ),
    "answer-independent": lambda: answer(
        people(3, 3, CHAIN.labels), CHAIN, "count:active", by="who", independent=True, mechanism="curve-tight"
    ),
    "answer-mean-gap": lambda: answer(PAIR, THREE, "mean", by="who", restart=10),
    "answer-network": lambda: by_id(
        NETWORK, ["yes", "no", "no", "yes"], ["smoke", "lung", "bronc", "dysp"], "count:yes", adversary="pufferfish"
    ),
    "answer-pedigree": lambda: by_id(FAMILY, ["BB", "Bb", "bb"], ["1", "2", "3"], "histogram", mechanism="group"),
    "answer-rows": lambda: answer(NUMBERS, CHAIN, "count:active", order="rows"),
    "answer-sum-wasserstein": lambda: answer(
        numbered(12), CHAIN, "count:active", mechanism="wasserstein", adversary="pufferfish"
    ),
    "answer-unit": lambda: answer(
        hourly(60), MarkovChain(transition=ROWS, states=CHAIN.labels, step="1h"), "count:active", unit="day"
    ),
    "charged-answer": lambda: charged(lambda **where: answer(NUMBERS, CHAIN, "count:active", epsilon=0.2, **where)),
    "charged-flip": lambda: charged(lambda **where: flipped(NUMBERS, CHAIN, epsilon=0.3, **where)),
    "charged-flow": lambda: charged(
        lambda **where: flowed(NUMBERS, CHAIN, eta=0.01, tau=0.2, privacy="record", **where),
        budget=FlowBudget(tau=0.3, eta=0.01, privacy="record"),
    ),
    "charged-redaction": lambda: charged(lambda **where: redacted([30], "window", **where)),
    "flip-three-states": lambda: flipped(PAIR, THREE, by="who", epsilon=2.0),
    "flip-two-states": lambda: flipped(NUMBERS, CHAIN),
    "flow-joint": lambda: flowed(PAIR, THREE, by="who", eta=0.05, tau=0.3),
    "flow-record": lambda: flowed(NUMBERS, CHAIN, eta=0.01, tau=0.2, privacy="record"),
    "measurement-charged": lambda: charged(measured),
    "measurement-zcdp": lambda: measured(True, epsilon=3.0, delta=1e-6, first=10),
    "redaction-optimal": lambda: redacted([30], "3r-optimal"),
    "redaction-restart": lambda: redacted([110], "3r-optimal", shared(), HOURLY, by="who", restart="8h"),
    "redaction-whole": lambda: redacted(
        [30, 31, 32, 33, 60], "3r-optimal", numbered(80, WIDE.labels), WIDE, whole=True, epsilon=1.5
    ),
    "redaction-window": lambda: redacted([30, 31], "window", adversary="pufferfish"),
    "table-charged": lambda: charged(
        lambda **where: answer(
            shared(), HOURLY, ["histogram", "count:active"], by="who", per=["person", "day"], restart="8h", **where
        ),
        model=HOURLY,
    ),
    "table-clip": lambda: answer(NUMBERS, BINNED, ["sum", "mean"], column="level", clip=(0, 40)),
    "table-hash": lambda: answer(hourly(3000), HOURLY, ["histogram"], per=["hour"]),
    "table-questions": lambda: answer(NUMBERS, VALUED, ["quantile:0.5,0.9", "min", "transitions"], epsilon=2.0),
}  # fmt: skip


def make_ledger(fitted: MarkovChain) -> None:
    """Write a ledger with seven charges of six kinds."""
    (FOLDER / "ledger.db").unlink(missing_ok=True)
    with Ledger(FOLDER / "ledger.db", create=True) as books:
        rows: dict[str, Any] = {"order": "rows", "ledger": books}  # charged on every record
        books.create("fit", model=fitted, budget=50.0)
        facts = {"lipschitz": 4.0, "scale": 2.0, "states": 2}
        books.charge("fit", Charge(kind="fit", dp_loss=2.0, longest=60, facts=facts))
        answer(NUMBERS, fitted, "count:active", epsilon=0.5, **rows, dataset="fit")
        books.create("flows", model=CHAIN, budget=FlowBudget(tau=0.5, eta=0.01, privacy="record"))
        flowed(NUMBERS, CHAIN, eta=0.01, tau=0.2, privacy="record", **rows, dataset="flows")
        books.create("hidden", model=CHAIN, budget=3.0)
        redacted([30], "window", **rows, dataset="hidden")
        books.create("week", model=CHAIN, budget=6.0)
        answer(NUMBERS, CHAIN, "count:active", epsilon=0.2, **rows, dataset="week")
        flipped(NUMBERS, CHAIN, epsilon=0.3, **rows, dataset="week")
        books.charge("week", Charge(kind="dp", dp_loss=0.001, longest=60))
        (FOLDER / "ledger-export.json").unlink(missing_ok=True)
        export_ledger(books, FOLDER / "ledger-export.json")


def main() -> None:
    """Write every certificate, the model of a private fit and of a class, and a ledger."""
    fits = {
        "fit-class": pufferdp.fit(NUMBERS, confidence=0.9, **READ),
        "fit-private": pufferdp.fit(
            NUMBERS, states=["rest", "active"], dp_epsilon=2.0, sampler=SeededSampler(2), **READ
        ),
    }
    contents = {name: model_to_dict(fit.model) for name, fit in fits.items()}
    contents |= {name: make().certificate.to_dict() for name, make in MADE.items()}
    for name, content in contents.items():
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    make_ledger(fits["fit-private"].model)


if __name__ == "__main__":
    main()
