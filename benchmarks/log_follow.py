"""Logs of a job, followed while they grow.

Usage: ``python -m benchmarks.log_follow [--megabytes 100] [--seconds 40] [--ranks 8]``.

Three jobs of a local AzureML, whose executor only writes logs, over the given time: 100 MB by one rank, 100 MB by each of 8 ranks, and 100 MB
without a line's end. `aml-train attach --json FILE` follows each. The baseline is the first one followed by azure-ai-ml's own `jobs.stream`, which shows
one rank. The memory of a job with one line is subtracted.

Clients are separate processes, behind a relay that counts the bytes that come down to them: TLS, and the answers to status calls, are in the
figures of both. The end is the time that the service says the job ended at.

Goals: 1.0 times the bytes of the logs, memory that does not grow with them, the verdict within 2 s of the end.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.measuring import AML_TRAIN
from tests.support.emulator_process import ROOT, Emulator
from tests.support.log_follower import Following, ranks

STD: Final = "user_logs/std_log.txt"
MB: Final = 1_000_000
WIDTH: Final = 100
BUFFER: Final = 256 * 1024
GOAL_SECONDS: Final = 2.0
STREAM: Final = """
import os, sys, time
from azure.ai.ml import MLClient
from azure.identity import EnvironmentCredential
client = MLClient(
    EnvironmentCredential(), os.environ["AZURE_SUBSCRIPTION_ID"], os.environ["AML_RESOURCE_GROUP"], os.environ["AML_WORKSPACE"]
)
client.jobs.stream(sys.argv[1])
"""


class Relay:
    """A relay to a port of this machine, which counts the bytes of its answers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self.down = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                inner = socket.create_connection(("127.0.0.1", self._port))
                for source, sink, counts in ((client, inner, False), (inner, client, True)):
                    threading.Thread(target=self._copy, args=(source, sink, counts), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        buffer = bytearray(BUFFER)
        with contextlib.suppress(OSError):
            while size := source.recv_into(buffer):
                sink.sendall(memoryview(buffer)[:size])
                if counts:
                    with self._lock:
                        self.down += size
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Accept no more."""
        self._server.close()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How following one job went.

    Attributes:
        logs: bytes of all logs of the job.
        down: bytes that came to the client, whatever they were for.
        late: seconds from the job's end to the client's.
        cpu: seconds of processor time that the client took.
        memory: the client's greatest resident memory, bytes.
        shown: bytes that the client printed.
    """

    name: str
    logs: int
    down: int
    late: float
    cpu: float
    memory: int
    shown: int


class Bench:
    """Follows jobs of one emulator, one after the other."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self._following = Following(emulator)
        self._relay = Relay(emulator.port)
        self._folder = folder
        info = emulator.info
        self._names = {
            "AZURE_SUBSCRIPTION_ID": info["subscription_id"],
            "AML_RESOURCE_GROUP": info["resource_group"],
            "AML_WORKSPACE": info["workspace"],
        }
        self._environment = {
            **os.environ,
            **emulator.environment(),
            **self._names,
            "HOME": os.environ.get("HOME", "/"),
            "HTTPS_PROXY": f"http://127.0.0.1:{self._relay.port}",
            "AML_TRAIN_SIGN_IN": "secret",
        }
        target = {"subscription-id": info["subscription_id"], "resource-group": info["resource_group"]}
        target |= {"workspace": info["workspace"], "compute": info["compute"]}
        (folder / "aml-train.yml").write_text(
            json.dumps(
                {
                    "job": {"command": "true", "environment": "azureml:logs:1"},
                    "target": "azure",
                    "targets": {"azure": target},
                }
            )
        )

    def ours(self, name: str, script: str, logs: int) -> Measured:
        """Follow with ``aml-train attach``."""
        job = self._submit(name, script)
        return self._followed(
            name, [AML_TRAIN, "attach", job, "--events", str(self._folder / f"{job}.jsonl")], job, logs
        )

    def stream(self, name: str, script: str, logs: int) -> Measured:
        """Follow with ``jobs.stream`` of azure-ai-ml."""
        job = self._submit(name, script)
        return self._followed(name, [sys.executable, "-c", STREAM, job], job, logs)

    def close(self) -> None:
        """End."""
        self._relay.close()

    def _submit(self, name: str, script: str) -> str:
        return self._following.submit("".join(c if c.isalnum() else "-" for c in name), "await go", script)

    def _followed(self, name: str, argv: list[str], job: str, logs: int) -> Measured:
        before = self._relay.down
        shown = self._folder / f"{job}.txt"
        with shown.open("wb") as output:
            client = subprocess.Popen(
                argv, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            # The job writes once the client is there: it has asked for something.
            while self._relay.down == before:
                if client.poll() is not None:
                    raise SystemExit(f"{argv} ended at once:\n{shown.read_text()[-2000:]}")
                time.sleep(0.05)
            self._following.tag(job, "go")
            _, status, usage = os.wait4(client.pid, 0)
            ended = time.time()
            client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode != 0:
            raise SystemExit(f"{argv} ended with {client.returncode}:\n{shown.read_text()[-2000:]}")
        view = self._following.service.details(job)
        end = (view.ended or datetime.datetime.now(datetime.UTC)).timestamp()
        return Measured(
            name=name,
            logs=logs,
            down=self._relay.down - before,
            late=ended - end,
            cpu=usage.ru_utime + usage.ru_stime,
            memory=usage.ru_maxrss * 1024,
            shown=shown.stat().st_size,
        )


@contextlib.contextmanager
def writing_emulator(folder: Path) -> Iterator[Emulator]:
    """Give a local AzureML whose jobs only write logs."""
    emulator = Emulator(
        folder,
        command=("-m", "tests.support.writing_emulator"),
        environment={"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
    )
    emulator.start()
    try:
        yield emulator
    finally:
        emulator.stop()


def main() -> int:
    """Measure, print, and return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--ranks", type=int, default=8)
    given = parser.parse_args()
    size, logs = given.megabytes * MB, ",".join(ranks(given.ranks).values())
    one = f"fill {STD} {size} {given.seconds:g} {WIDTH}"
    with tempfile.TemporaryDirectory(prefix="aml-train-bench-") as folder:
        (Path(folder) / "emulator").mkdir()
        with writing_emulator(Path(folder) / "emulator") as emulator:
            bench = Bench(emulator, Path(folder))
            idle = bench.ours("ours, one line", f"say {STD} hello", 6)
            idle_stream = bench.stream("jobs.stream, one line", f"fill {STD} 6 5 6", 6)
            rows = [
                (bench.ours("ours, one rank", one, size), idle),
                (bench.stream("jobs.stream, one rank", one, size), idle_stream),
                (
                    bench.ours(
                        f"ours, {given.ranks} ranks",
                        f"fill {logs} {size} {given.seconds:g} {WIDTH}",
                        size * given.ranks,
                    ),
                    idle,
                ),
                (bench.ours("ours, one endless line", f"fill {STD} {size} {given.seconds:g} 0", size), idle),
            ]
            bench.close()
    _print(rows, given)
    return 0


def _print(rows: list[tuple[Measured, Measured]], given: argparse.Namespace) -> None:
    print(f"\nFollowing {given.megabytes} MB of each rank's log, written within {given.seconds:g} s")
    print(f"  {'':<24}{'bytes of the logs':>20}{'times':>8}{'verdict':>12}{'CPU':>9}{'memory grew':>14}{'of':>9}")
    for row, idle in rows:
        times, grew = row.down / row.logs, (row.memory - idle.memory) / MB
        print(
            f"  {row.name:<24}{row.down / MB:>9.1f} of {row.logs / MB:<8.1f}{times:>7.3f}x{row.late:>+10.2f} s"
            f"{row.cpu:>7.1f} s{grew:>+11.1f} MB{idle.memory / MB:>6.0f} MB"
        )
    (ours, idle), (stream, idle_stream) = rows[0], rows[1]
    grew, theirs = ours.memory - idle.memory, stream.memory - idle_stream.memory
    print(
        f"  one rank against jobs.stream: {ours.down / stream.down:.3f} x its bytes, {ours.cpu / stream.cpu:.2f} x its CPU,"
    )
    print(
        f"    {grew / max(theirs, 1):.3f} x the growth of its memory, the end {stream.late - ours.late:+.2f} s earlier"
    )
    for row, _ in (one for one in rows if one[0].name.startswith("ours")):
        met = row.late <= GOAL_SECONDS and row.down <= 1.01 * row.logs + MB
        print(
            f"  {row.name}: 1.0 x the bytes, and the verdict within {GOAL_SECONDS:g} s: {'met' if met else 'MISSED'}"
        )


if __name__ == "__main__":
    sys.exit(main())
