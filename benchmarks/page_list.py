"""The time that the page's list of runs takes with 10,000 of them.

The runs are written into an emulator's store, which is then started again; each list is requested over loopback, so that
the figures have the whole way of a request. The first request of each list is counted with the others.

    python -m benchmarks.page_list [--runs 10000] [--rounds 20]

Goal: at most 100 ms, the median, for the first page of runs sorted by a metric.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import requests

from aml_emulator.store.store import Store
from benchmarks.measuring import make_row, print_table
from tests.support.emulator_process import Emulator
from tests.support.page_runs import SteppingClock, fill

_GOAL: Final = 0.1
_STEPS: Final = 20
_LISTS: Final[Mapping[str, str]] = {
    "newest first": "",
    "sorted by a metric": "sort=metrics.val/accuracy&order=desc",
    "with 5 columns of values": "sort=metrics.val/accuracy&order=desc&column=metrics.val/accuracy"
    "&column=metrics.train/loss&column=params.learning_rate&column=gate&column=model",
    "sorted by a parameter": "sort=params.learning_rate",
    "sorted by stage": "sort=stage&order=desc",
    "filtered by metric and branch": "where=metrics.val/accuracy+>+0.9&branch=main&sort=metrics.val/accuracy",
    "filtered by a tag": "where=tags.aml-train.tested+=+'yes'",
}
_SORTED: Final = "sorted by a metric"


def main() -> int:
    """Measure, print a table, and return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        emulator = Emulator(Path(folder))
        emulator.start()
        emulator.stop()
        clock = SteppingClock()
        store = Store(emulator.folder / "data" / "store.db", clock=clock)
        fill(store, clock, given.runs, steps=_STEPS)
        store.close()
        emulator.start()
        times: dict[str, list[float]] = {name: [] for name in _LISTS}
        with requests.Session() as session:
            session.trust_env = False
            for _ in range(given.rounds):
                for name, query in _LISTS.items():
                    begin = time.perf_counter()
                    answer = session.get(f"http://127.0.0.1:{emulator.port}/ui/?{query}", timeout=60)
                    times[name].append(time.perf_counter() - begin)
                    if answer.status_code != 200 or "data-key=" not in answer.text:
                        raise SystemExit(f"{name}: {answer.status_code}")
        emulator.stop()
    rows = [make_row(name, seconds, more=_GOAL if name == _SORTED else None) for name, seconds in times.items()]
    print_table(f"The first page of {given.runs} runs", rows, baseline=rows[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
