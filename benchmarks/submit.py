"""Submit, against a bare azure-ai-ml script on the same emulator.

Usage: ``python -m benchmarks.submit [--rounds N] [--files N] [--latency MS]``.

The baseline is the shortest script that does the same: sign in, make a command job of a folder, ``create_or_update``. Both run in
separate processes and in turns, on an emulator of the benchmark's own, which runs as a process; each gets a folder that
the emulator has not seen, and then the same one again. Goals: 1.05 times the script's time with 10 files, 0.2 times with 5,000;
unchanged code uploads nothing and costs one request. With a latency, every round trip to the emulator takes that much longer (`late_relay`), as
over a network: 20 ms is a region nearby. Files are uploaded 32 at a time, azcopy's own number on machines of fewer than five
processors (https://github.com/Azure/azure-storage-azcopy/blob/main/ste/concurrency.go).
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.late_relay import late_port
from benchmarks.measuring import AML_TRAIN, Row, make_row, print_table
from tests.support.emulator_process import Emulator

_IMAGE: Final = "python:3.11-slim-bookworm"
_BARE: Final = """
import os, sys
from azure.ai.ml import MLClient, command
from azure.ai.ml.entities import Environment
from azure.identity import EnvironmentCredential
client = MLClient(
    EnvironmentCredential(), os.environ["AZURE_SUBSCRIPTION_ID"], os.environ["AML_RESOURCE_GROUP"], os.environ["AML_WORKSPACE"]
)
job = command(code=sys.argv[1], command="true", environment=Environment(image=sys.argv[2]), compute="local-cluster")
print(client.jobs.create_or_update(job).name)
"""
_FOLDER: Final = 100
_LINES: Final = 40
_PAUSE: Final = 0.2


def make_folder(parent: Path, files: int) -> Path:
    """Make a folder of new source files of about 1 kB."""
    folder = parent / secrets.token_hex(4)
    for number in range(files):
        path = folder / f"package{number // _FOLDER}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = '{secrets.token_hex(8)}'\n" * _LINES)
    (folder / "aml-train.yml").write_text("code: {max-files: 100000}\n")
    return folder


class Bench:
    """Submits to one emulator, and waits until it is quiet before the next."""

    def __init__(self, emulator: Emulator, port: int) -> None:
        info = emulator.info
        self._emulator = emulator
        self._environment = {
            **os.environ,
            **emulator.environment(),
            "HTTPS_PROXY": f"http://127.0.0.1:{port}",
            "https_proxy": f"http://127.0.0.1:{port}",
            "HOME": os.environ.get("HOME", "/"),
            "AZURE_SUBSCRIPTION_ID": info["subscription_id"],
            "AML_RESOURCE_GROUP": info["resource_group"],
            "AML_WORKSPACE": info["workspace"],
            "AML_TRAIN_SIGN_IN": "secret",
        }

    def bare(self, folder: Path) -> float:
        """Return the seconds that the script takes."""
        return self._timed([sys.executable, "-c", _BARE, str(folder), _IMAGE], folder)

    def ours(self, folder: Path) -> float:
        """Return the seconds that ``aml-train submit`` takes."""
        options = ("--target", "azure", "-c", "local-cluster", "--image", _IMAGE, "--no-wait")
        return self._timed([AML_TRAIN, "submit", *options, "--", "true"], folder)

    def requests_for_code(self, folder: Path) -> int:
        """Submit again; return the number of requests about code or its upload."""
        before = self._emulator.admin("GET", "requests?limit=1").json()["total"]
        self.ours(folder)
        after = self._emulator.admin("GET", f"requests?since={before}&limit=1000").json()["requests"]
        return sum("/codes/" in entry["path"] for entry in after)

    def _timed(self, argv: Sequence[str], folder: Path) -> float:
        begin = time.perf_counter()
        done = subprocess.run(
            list(argv),
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{argv[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        seconds = time.perf_counter() - begin
        while self._busy():
            time.sleep(_PAUSE)
        return seconds

    def _busy(self) -> bool:
        jobs: Mapping[str, int] = self._emulator.admin("GET", "status").json()["jobs"]
        return any(count for status, count in jobs.items() if status not in ("Completed", "Failed", "Canceled"))


def _against(name: str, times: Sequence[float], baseline: Row, most: float) -> Row:
    """Return the line for *times*, whose goal is *most* times the baseline."""
    row = make_row(name, times)
    ratio = row.seconds / baseline.seconds
    return Row(
        name=name,
        seconds=row.seconds,
        spread=row.spread,
        goal=f"{ratio:.2f} x, goal {most:g} x",
        met=ratio <= most,
    )


def measure(bench: Bench, parent: Path, files: int, rounds: int, most: float) -> None:
    """Submit new and unchanged folders in turns; print the table."""
    new: dict[str, list[float]] = {"bare": [], "ours": []}
    again: dict[str, list[float]] = {"bare": [], "ours": []}
    folder = parent
    for _ in range(rounds):
        for name, submit in (("bare", bench.bare), ("ours", bench.ours)):
            folder = make_folder(parent, files)
            new[name].append(submit(folder))
            again[name].append(submit(folder))
    baseline = make_row("azure-ai-ml", new["bare"])
    unchanged = make_row("azure-ai-ml, unchanged code", again["bare"])
    print_table(
        f"Submit with {files:,} files: medians of {rounds}",
        (
            baseline,
            _against("aml-train submit", new["ours"], baseline, most),
            unchanged,
            make_row("aml-train submit, unchanged code", again["ours"]),
        ),
        baseline=baseline,
    )
    count = bench.requests_for_code(folder)
    print(f"  requests for unchanged code: {count}, goal at most 1   {'met' if count <= 1 else 'MISSED'}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds with 10 files; a third with many  [default: 5]")
    parser.add_argument("--files", type=int, default=5000, help="how many files are many  [default: 5000]")
    parser.add_argument("--latency", type=float, default=0.0, help="milliseconds of a round trip  [default: 0]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aml-train-bench-", ignore_cleanup_errors=True) as place:
        emulator = Emulator(Path(place))
        emulator.start()
        try:
            with late_port(emulator.port, given.latency / 1000) as port:
                bench = Bench(emulator, port if given.latency else emulator.port)
                print("Warming up …", flush=True)
                few = make_folder(Path(place), 10)
                bench.bare(few)
                bench.ours(few)
                print(f"A round trip takes {given.latency:g} ms longer.", flush=True)
                measure(bench, Path(place), 10, given.rounds, 1.05)
                measure(bench, Path(place), given.files, max(1, given.rounds // 3), 0.2)
        finally:
            emulator.admin("POST", "reset?force=1")
            emulator.stop()


if __name__ == "__main__":
    main()
