"""Status calls of many watchers at an emulator with many jobs, and its memory.

Each watcher has a separate connection and requests one job's status every second, as `aml-train` and the SDKs do while
they follow a job; their moments are spread over the second. The jobs are stored by one client; they run nowhere, because
a benchmark of a thousand containers would be one of the engine.

    python -m benchmarks.emulator_load [--jobs 1000] [--watchers 100] [--seconds 20]

Goals: p99 below 50 ms, no error; at most 200 MB of memory after 1,000 jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import ssl
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import resident_megabytes
from tests.support.emulator_client import TERMINAL, VERSION, Client
from tests.support.emulator_process import Emulator

HOST = "management.azure.com"
INTERVAL_SECONDS = 1.0


@dataclass
class Seen:
    """The watchers' results: milliseconds of each answer, and failures.

    *first* are the first answers on each connection, which come while the others still make theirs.
    """

    first: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def main() -> int:
    """Measure, print a table, and return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        emulator = Emulator(Path(folder))
        emulator.start()
        before = resident_megabytes(emulator.process)
        client = Client(emulator.environment(), emulator.info)
        took = _store_jobs(emulator, client, given.jobs)
        stored = resident_megabytes(emulator.process)
        spent = _cpu(emulator)
        seen = asyncio.run(_watch(emulator, client, given))
        spent = _cpu(emulator) - spent
        after = resident_megabytes(emulator.process)
        client.close()
        emulator.stop()
    print(f"jobs stored                {given.jobs}, {took * 1000 / given.jobs:.1f} ms each")
    print(f"status calls               {given.watchers} watchers for {given.seconds:g} s, one call a second each")
    for label, times in (("first of a connection", seen.first), ("following", seen.times)):
        parts = statistics.quantiles(times, n=1000)
        shown = " / ".join(f"{value:.1f}" for value in (parts[499], parts[899], parts[989], max(times)))
        print(f"  {label:<24} {len(times)} calls: p50 / p90 / p99 / max {shown} ms")
    calls = len(seen.first) + len(seen.times)
    print(f"CPU of the emulator        {spent * 1000 / calls:.2f} ms a call")
    print(f"errors                     {len(seen.errors)} {seen.errors[:3]}")
    print(
        f"memory of the process      {before:.0f} MB at first, {stored:.0f} MB with the jobs, {after:.0f} MB at the end"
    )
    return 0


def _store_jobs(emulator: Emulator, client: Client, count: int) -> float:
    """Submit the jobs through the interface, cancel each at once; return the seconds."""
    client.ask("PUT", client.arm("environments/load/versions/1"), json={"properties": {"image": "nothing:1"}})
    job = {
        "jobType": "Command",
        "command": "python train.py --epochs 10 --rate 0.1",
        "environmentId": f"{client.scope}/environments/load/versions/1",
        "computeId": f"{client.scope}/computes/{emulator.info['compute']}",
        "experimentName": "load",
        "tags": {"commit": "0123456789abcdef", "team": "vision"},
    }
    began = time.perf_counter()
    for number in range(count):
        answer = client.ask("PUT", client.arm(f"jobs/job-{number}"), json={"properties": job})
        if answer.status_code != 201:
            raise SystemExit(f"a job was refused: {answer.status_code} {answer.text}")
        client.ask("POST", client.arm(f"jobs/job-{number}/cancel"))
    took = time.perf_counter() - began
    statuses: list[Any] = []
    for _ in range(600):
        with sqlite3.connect(f"file:{emulator.folder / 'data' / 'store.db'}?mode=ro", uri=True) as database:
            statuses = database.execute("SELECT DISTINCT status FROM runs WHERE job IS NOT NULL").fetchall()
        if {row[0] for row in statuses} <= set(TERMINAL):
            return took
        time.sleep(0.1)
    raise SystemExit(f"the jobs do not end: {statuses}")


async def _watch(emulator: Emulator, client: Client, given: argparse.Namespace) -> Seen:
    """Have all watchers ask until the time is over."""
    context = ssl.create_default_context(cafile=str(emulator.folder / "ca-bundle.pem"))
    token = str(client._session.headers["Authorization"])
    seen = Seen()
    end = time.monotonic() + given.seconds
    async with asyncio.TaskGroup() as group:
        for number in range(given.watchers):
            path = f"{client.scope}/jobs/job-{number * given.jobs // given.watchers}?{VERSION}"
            group.create_task(_one(emulator.port, context, token, path, seen, end, number / given.watchers))
    return seen


async def _one(
    port: int, context: ssl.SSLContext, token: str, path: str, seen: Seen, end: float, offset: float
) -> None:
    """One watcher: a tunnel through the proxy, TLS in it, and a request every second."""
    await asyncio.sleep(offset * INTERVAL_SECONDS)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    await writer.start_tls(context, server_hostname=HOST)
    request = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {token}\r\nAccept: */*\r\n\r\n".encode()
    known = False
    while time.monotonic() < end:
        began = time.perf_counter()
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
            body = await reader.readexactly(length)
            status = json.loads(body)["properties"]["status"] if " 200 " in lines[0] else lines[0]
            if status not in TERMINAL:
                seen.errors.append(str(status))
        except (OSError, EOFError, ValueError, KeyError) as error:
            seen.errors.append(repr(error))
            break
        took = time.perf_counter() - began
        (seen.times if known else seen.first).append(took * 1000)
        known = True
        await asyncio.sleep(max(0.0, INTERVAL_SECONDS - took))
    writer.close()


def _cpu(emulator: Emulator) -> float:
    """Return the CPU time that the emulator's process has used, seconds."""
    if emulator.process is None:
        raise RuntimeError("the emulator does not run")
    fields = Path(f"/proc/{emulator.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
