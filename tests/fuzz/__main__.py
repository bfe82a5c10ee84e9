"""``python -m tests.fuzz N [SEED] [NAME…]``: N broken inputs a parser, each below 10 s of processor time and 2 GiB."""

from __future__ import annotations

import faulthandler
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from tests.fuzz.targets import refused, targets

LONGEST, WAITED, MOST_BYTES = 10, 300, 2 << 30


def main(count: int, seed: int, names: list[str]) -> int:
    """How many ended in a traceback; a hang ends the run with the place where it hangs."""
    warnings.simplefilter("ignore")
    # Processor time, because on a busy machine everything takes long; whoever waits for nothing is ended later.
    faulthandler.register(signal.SIGPROF, chain=True)
    failures = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, target in targets().items():
            if names and name not in names:
                continue
            shown: set[str] = set()
            for number, content in enumerate(target.cases(count, seed)):
                signal.setitimer(signal.ITIMER_PROF, LONGEST)
                faulthandler.dump_traceback_later(WAITED, exit=True)
                try:
                    refused(target, content, Path(folder))
                except Exception as error:
                    failures += 1
                    place = traceback.extract_tb(error.__traceback__)[-1]
                    kind = f"{type(error).__name__} at {place.filename}:{place.lineno}"
                    if kind not in shown:
                        shown.add(kind)
                        print(f"{name}, case {number}: {kind}: {str(error)[:200]}\n  {content[:400]!r}")
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    faulthandler.cancel_dump_traceback_later()
                total += 1
            print(f"{name}: {number + 1} inputs", flush=True)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{total:,} inputs, {failures} tracebacks, none over {LONGEST} s, at most {largest / 2**20:,.0f} MiB")
    return int(failures > 0 or largest > MOST_BYTES)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    numbers = [int(word) for word in arguments if word.isdigit()]
    sys.exit(main((numbers or [600])[0], (numbers[1:] or [1])[0], [word for word in arguments if not word.isdigit()]))
