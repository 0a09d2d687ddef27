"""Workspaces of a running local AzureML: their creation, first use, and pytest.

Usage: ``python -m benchmarks.workspaces [--count N] [--rounds N]``.

The baseline of a creation is the cheapest request of the same clients at the same moment: reading the latency. Each client has a
separate connection, and all send at once. Goal: p95 of 50 ms. The first use opens the
workspace: its database, four containers, its clusters. The plugin is compared with the same pytest without it, on an empty
folder; goal: 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.measuring import Row, make_row, print_table, time_in_turns
from tests.support.emulator_process import Emulator

_GOAL_SECONDS: Final = 0.05
_PLUGIN_SECONDS: Final = 0.02


async def ask_at_once(port: int, requests: Sequence[tuple[str, str]]) -> list[float]:
    """Send requests side by side; return the seconds until each was answered with 200."""
    ready = asyncio.Event()

    async def one(method: str, path: str) -> float:
        await ready.wait()
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} /_emulator/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        answer = await reader.read()
        took = time.perf_counter() - began
        writer.close()
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise SystemExit(f"{method} {path}: {answer[-300:].decode()}")
        return took

    tasks = [asyncio.create_task(one(method, path)) for method, path in requests]
    await asyncio.sleep(0)
    ready.set()
    return list(await asyncio.gather(*tasks))


def p95(times: Sequence[float]) -> float:
    """Return the time that 95 of a hundred did not exceed."""
    return statistics.quantiles(times, n=100)[94]


def measure_creation(emulator: Emulator, count: int, rounds: int) -> None:
    """Create *count* workspaces at once, in turns with the baseline; print the table."""
    found: dict[str, list[float]] = {"baseline": [], "creations": []}
    made: list[str] = []
    for number in range(rounds + 1):
        names = [f"bench-{secrets.token_hex(6)}" for _ in range(count)]
        made += names
        nothing = asyncio.run(ask_at_once(emulator.port, [("GET", "latency")] * count))
        created = asyncio.run(ask_at_once(emulator.port, [("POST", f"workspaces?name={name}") for name in names]))
        if number:
            found["baseline"].append(p95(nothing))
            found["creations"].append(p95(created))
    baseline = make_row("the cheapest request", found["baseline"])
    row = make_row("a workspace's creation", found["creations"])
    met = row.seconds <= _GOAL_SECONDS
    shown = Row(name=row.name, seconds=row.seconds, spread=row.spread, goal="goal 50 ms", met=met)
    print_table(f"p95 of {count} at once: medians of {rounds}", (baseline, shown), baseline=baseline)
    one_by_one = []
    opened = []
    for _ in range(20):
        name = f"bench-{secrets.token_hex(6)}"
        began = time.perf_counter()
        asyncio.run(ask_at_once(emulator.port, [("POST", f"workspaces?name={name}")]))
        one_by_one.append(time.perf_counter() - began)
        opened += asyncio.run(ask_at_once(emulator.port, [("GET", f"info?workspace={name}")]))
    rows = (make_row(f"created, with {len(made)} others there", one_by_one), make_row("first used", opened))
    print_table("One after the other: medians of 20", rows)


def measure_plugin(rounds: int) -> None:
    """Start pytest with and without the plugin on an empty folder; print the table."""
    with tempfile.TemporaryDirectory(prefix="aml-train-bench-") as folder:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            folder,
            "-c",
            "/dev/null",
        ]
        # No test is there: pytest ends with 5, which the shell turns into 0.
        plain, plugin = ([*command, *more, folder] for more in (["-p", "no:aml-train"], []))
        shell = {
            name: ["sh", "-c", '"$@"; test $? = 5', "sh", *argv]
            for name, argv in (("pytest", plain), ("pytest with the plugin", plugin))
        }
        times = time_in_turns(shell, rounds=rounds)
    baseline = make_row("pytest", times["pytest"])
    row = make_row(
        "pytest with the plugin",
        times["pytest with the plugin"],
        baseline=baseline.seconds,
        more=_PLUGIN_SECONDS,
    )
    print_table(f"Start of pytest without tests: medians of {rounds}", (baseline, row), baseline=baseline)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="how many at once  [default: 100]")
    parser.add_argument("--rounds", type=int, default=5, help="[default: 5]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aml-train-bench-", ignore_cleanup_errors=True) as place:
        emulator = Emulator(Path(place))
        emulator.start()
        try:
            measure_creation(emulator, given.count, given.rounds)
        finally:
            emulator.stop()
    measure_plugin(given.rounds)


if __name__ == "__main__":
    main()
