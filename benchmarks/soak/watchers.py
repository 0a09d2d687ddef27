"""Watchers: each follows a job with the product's pace, and measures it.

``python -m benchmarks.soak.watchers``, with its work as JSON on stdin; the results are JSON on stdout. A separate process, so that
the other clients take nothing of its time.

A watcher takes the oldest job that no one follows: status and logs until the job has ended, with the product's own
`aml_train.jobs.pace.Cadence` for the local AzureML, then its metrics, and submits another job in its place. The queue stays
as long as it was.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import uvloop

from aml_train.jobs.pace import Cadence, Pace
from aml_train.jobs.states import parse_status
from aml_train.local.target import LOCAL_PACE
from benchmarks.soak.http import Connections, Reply
from tests.support.emulator_client import MANAGEMENT, VERSION

LOG: Final = "user_logs/std_log.txt"
_TOKEN_SECONDS: Final = 1800.0
_MOST_ERRORS: Final = 20
_LONGEST_WAIT: Final = 600.0


@dataclass
class Results:
    """The measurements of the watchers.

    Attributes:
        times: milliseconds of each answer, by kind of request and minute.
        errors: the first answers that were wrong, and how many there were.
        lost: requests without an answer, which are expected only while the emulator is killed.
        ended: statuses of the jobs that were followed to their end.
        bytes: of logs that were read.
    """

    times: dict[str, dict[int, array[float]]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    submitted: int = 0

    def measured(self, kind: str, minute: int, milliseconds: float) -> None:
        """Take the time of one answer."""
        self.times.setdefault(kind, {}).setdefault(minute, array("f")).append(milliseconds)

    def wrong(self, text: str) -> None:
        """Take an answer that is not as it should be."""
        self.errors[text if text in self.errors or len(self.errors) < _MOST_ERRORS else "others"] += 1

    def as_json(self) -> dict[str, Any]:
        """Return all of it; times by kind, in the order of the minutes."""
        return {
            "times": {
                kind: [[minute, [round(value, 2) for value in values]] for minute, values in sorted(minutes.items())]
                for kind, minutes in self.times.items()
            },
            "errors": dict(self.errors),
            "lost": self.lost,
            "ended": dict(self.ended),
            "bytes": self.bytes,
            "submitted": self.submitted,
        }


class Work:
    """The jobs of all watchers, and what they share.

    Args:
        given: ``info`` and ``environment`` of the emulator, ``ca``, ``port``, ``watchers``, ``seconds``, ``jobs`` (how many are queued),
            ``first`` (the number of the first of them), ``job`` (its body) and ``prefix`` of the names.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        info = given["info"]
        group = f"/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
        self.scope = f"{group}/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
        self.api = str(info["api_host"])
        self.management = urlsplit(MANAGEMENT).netloc
        self.context = ssl.create_default_context(cafile=given["ca"])
        self.results = Results()
        self.began = time.monotonic()
        self.end = self.began + float(given["seconds"])
        self._next = int(given["first"])
        self._last = self._next + int(given["jobs"])
        self._token = ""
        self._renew = 0.0
        self._signing = asyncio.Lock()

    def take(self) -> str:
        """Return the oldest job that no one follows."""
        self._next += 1
        return f"{self.given['prefix']}{self._next - 1:06}"

    def new(self) -> str:
        """Return the name of a further job."""
        self._last += 1
        return f"{self.given['prefix']}{self._last - 1:06}"

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.end

    async def token(self, connections: Connections) -> str:
        """Return the access token, signed in for when it is old."""
        async with self._signing:
            if time.monotonic() >= self._renew:
                environment = self.given["environment"]
                form = {
                    "grant_type": "client_credentials",
                    "client_id": environment["AZURE_CLIENT_ID"],
                    "client_secret": environment["AZURE_CLIENT_SECRET"],
                    "scope": f"{MANAGEMENT}/.default",
                }
                answer = await connections.request(
                    "POST",
                    "login.microsoftonline.com",
                    f"/{environment['AZURE_TENANT_ID']}/oauth2/v2.0/token",
                    headers={"Content-Type": "application/x-www-form-urlencoded"},
                    body=urlencode(form).encode(),
                )
                self._token = str(json.loads(answer.body)["access_token"])
                self._renew = time.monotonic() + _TOKEN_SECONDS
            return self._token


class Watcher:
    """One watcher."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._results = work.results
        self._connections = Connections(int(work.given["port"]), work.context)

    async def run(self, delay: float) -> None:
        """Follow jobs until the time is over."""
        await asyncio.sleep(delay)
        while not self._work.over:
            name = self._work.take()
            if await self._follow(name, LOCAL_PACE):
                await self._metrics(name)
                await self._submit(self._work.new())
        self._connections.close()

    async def _follow(self, name: str, pace: Pace) -> bool:
        """Follow one job; return whether it ended."""
        cadence = Cadence(pace, time.monotonic())
        offset = 0
        while not self._work.over:
            answer = await self._ask("details", f"/history/v1.0{self._work.scope}/runs/{name}/details")
            now = time.monotonic()
            if answer is None:
                cadence.looked(now, None)
                await asyncio.sleep(min(cadence.pause(now), _LONGEST_WAIT))
                continue
            found = json.loads(answer.body)
            status = parse_status(found["status"])
            cadence.looked(now, status)
            address = found["logFiles"].get(LOG)
            if address is not None:
                offset = await self._read_log(name, address, offset, cadence)
            if status.final:
                self._results.ended[status.value] += 1
                return True
            until = now + cadence.pause(now)
            while (left := until - time.monotonic()) > 0 and not self._work.over:
                await asyncio.sleep(min(left, pace.log) if address is not None else left)
                if address is not None and left > pace.log:
                    offset = await self._read_log(name, address, offset, cadence)
        return False

    async def _read_log(self, name: str, address: str, offset: int, cadence: Cadence) -> int:
        """Read the new bytes of a log and check whose they are; return the offset."""
        place = urlsplit(address)
        began = time.monotonic()
        reply = await self._send(
            "log",
            "GET",
            place.netloc,
            f"{place.path}?{place.query}",
            {"Range": f"bytes={offset}-"},
            ok=(206, 404, 416),
        )
        data = reply.body if reply is not None and reply.status == 206 else b""
        cadence.heard(time.monotonic(), grew=bool(data), began=began)
        if data and self._work.given["metrics"] and offset % 100 == 0 and name.encode() not in data[:100]:
            self._results.wrong(f"a line of another log: {data[:60]!r}")
        self._results.bytes += len(data)
        return offset + len(data)

    async def _metrics(self, name: str) -> None:
        """Read the metrics of an ended job, as the gate does."""
        query = urlencode({"run_id": name, "run_uuid": name})
        prefix = f"/mlflow/v2.0{self._work.scope}/api/2.0/mlflow"
        answer = await self._ask("metrics", f"{prefix}/runs/get?{query}")
        if answer is None:
            return
        keys = {one["key"] for one in json.loads(answer.body)["run"]["data"].get("metrics", [])}
        if not self._work.given["metrics"]:
            return
        if "loss" not in keys:
            self._results.wrong(f"{name} has no metric: {sorted(keys)}")
        history = urlencode({"run_id": name, "metric_key": "loss", "max_results": "25000"})
        await self._ask("metrics", f"{prefix}/metrics/get-history?{history}")

    async def _submit(self, name: str) -> None:
        """Submit a further job, and read it once from Azure Resource Manager."""
        path = f"{self._work.scope}/jobs/{name}?{VERSION}"
        body = json.dumps({"properties": self._work.given["job"]}).encode()
        answer = await self._ask("submit", path, method="PUT", host=self._work.management, body=body)
        self._results.submitted += answer is not None
        if answer is not None:
            await self._ask("status", path, host=self._work.management)

    async def _ask(
        self, kind: str, path: str, *, method: str = "GET", host: str | None = None, body: bytes = b""
    ) -> Reply | None:
        """Request something with the token; None if there is no answer, or a wrong one."""
        try:
            headers = {"Authorization": f"Bearer {await self._work.token(self._connections)}"}
        except (OSError, EOFError, ValueError, KeyError) as error:
            self._no_answer(kind, error)
            return None
        headers |= {"Content-Type": "application/json"} if body else {}
        return await self._send(kind, method, host or self._work.api, path, headers, body=body, ok=(200, 201))

    async def _send(
        self,
        kind: str,
        method: str,
        host: str,
        path: str,
        headers: Mapping[str, str],
        *,
        ok: tuple[int, ...],
        body: bytes = b"",
    ) -> Reply | None:
        began = time.perf_counter()
        try:
            reply = await self._connections.request(method, host, path, headers=headers, body=body)
        except (OSError, EOFError, ValueError) as error:
            self._no_answer(kind, error)
            return None
        minute = int((time.monotonic() - self._work.began) / 60)
        self._results.measured(kind, minute, (time.perf_counter() - began) * 1000)
        if reply.status not in ok:
            self._results.wrong(f"{kind}: {reply.status} {reply.body[:200]!r}")
            return None
        return reply

    def _no_answer(self, kind: str, error: Exception) -> None:
        self._results.lost += 1
        if not self._work.given.get("kills"):
            self._results.wrong(f"{kind}: no answer: {error!r}")


async def watch(given: Mapping[str, Any]) -> Results:
    """Let all watchers work until the time is over."""
    work = Work(given)
    count = int(given["watchers"])
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(Watcher(work).run(number / count * 2))
    return work.results


def main() -> int:
    """Read the work from stdin, and write the results to stdout."""
    results = uvloop.run(watch(json.load(sys.stdin)))
    json.dump(results.as_json(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
