"""Load on one local AzureML for a long time, and what it did to it.

2,000 queued jobs, 200 watchers with the pace of the product, 20 pipelines at once and a gigabyte of logs in an hour, then fifty kills at
random moments with restarts, and the load again. The service is a plain process with the image's settings of memory, and jobs execute
without containers; with ``--containers`` they are containers of the machine's engine. Jobs that ended minutes ago are cleaned up, and of
models the oldest versions are deleted, so that as much is stored at the end of an hour as early in it; with ``--keep`` all of it stays.

    python -m benchmarks.soak [--minutes 60] [--kills 50] [--containers] [--keep] [--report FILE]

Goals: no wrong answer; p99 of a status request at most 50 ms; memory of each process flat, at most 1 MiB an hour, and what lives on the
heap of Azurite, whose garbage of some ten megabytes hides more than that; disk as accounted;
after the kills, nothing acknowledged is lost and every job ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import ROOT
from benchmarks.soak.figures import (
    MIB,
    STATUS,
    Latency,
    Phase,
    Report,
    as_json,
    goals_of,
    latency_of,
    lines_of,
    lines_of_phase,
    live_memory_of,
    memory_of,
)
from benchmarks.soak.sampling import Sampler, disk_of, read_heap
from tests.support.crash_load import COMMAND, Load, kill
from tests.support.emulator_client import TERMINAL, Client
from tests.support.emulator_process import Emulator

IMAGE: Final = "python:3.11-slim-bookworm"
_WARM_SHARE: Final = 1 / 3
_WARM_SECONDS: Final = 1200.0
"""Until as much goes as comes, for an ended job stays for 5 to 6 minutes, and the heaps have reached their size."""
_CLEAN_SECONDS: Final = 60.0
"""Between two cleanings. With five minutes, what lives on Azurite's heap rose by 6 MiB and fell again, which hid its slope."""
_END_SECONDS: Final = 3600.0
_GRACE: Final = 600.0
_ALLOCATOR: Final = re.compile(r"^ENV (LD_PRELOAD)=(\S+) \\\n +(MALLOC_CONF)=(\S+)$", re.MULTILINE)
"""The image's allocator of memory, and its settings."""
#: A job in a container: lines of the same amount in the same time, and no metrics.
_IN_CONTAINER: Final = (
    'python -c "import time; [(print(chr(46) * {line}, flush=True), time.sleep({pause})) for _ in range({count})]"'
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The amounts of a soak."""

    minutes: float = 60.0
    jobs: int = 2000
    watchers: int = 200
    pipelines: int = 20
    megabytes: float | None = None
    places: int = 40
    job_seconds: float = 60.0
    pipeline_seconds: float = 10.0
    kills: int = 50
    seed: int = 20
    containers: bool = False
    keep: bool = False

    @property
    def log_bytes(self) -> float:
        """Bytes of all logs in each phase: a gigabyte an hour, if not set."""
        return (1000.0 * self.minutes / 60 if self.megabytes is None else self.megabytes) * 1e6

    @property
    def kept_seconds(self) -> float:
        """For how long an ended job stays at least."""
        return max(60.0, min(300.0, self.minutes * 60 / 12))

    @property
    def rate(self) -> float:
        """Bytes of logs that one running job writes in a second."""
        return self.log_bytes / (self.minutes * 60) / (self.places + self.pipelines)


@dataclass
class Soak:
    """One soak on one emulator."""

    settings: Settings
    emulator: Emulator
    folder: Path
    submitted: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    numbered: int = 0
    cleaned: set[str] = field(default_factory=set)
    cleaned_bytes: int = 0

    def run(self) -> Iterator[Report]:
        """Run all phases; yield the figures after each, and last the whole report.

        The figures of the first hour are kept, even if a later phase fails.
        """
        self.emulator.start()
        client = Client(self.emulator.environment(), self.emulator.info)
        self._fill(client)
        report = Report(settings=self._shown(), phases=[self._phase("load")])
        yield report
        missing: list[str] = []
        if self.settings.kills:
            missing += self._kill()
            after = self._phase("load after the kills")
            report = replace(report, phases=[*report.phases, after], kills=self.settings.kills, missing=missing)
            yield report
        (self.folder / "drain").touch()
        statuses = self._await_end()
        missing += self._missing(client)
        stored = self._stored(client)
        self._clean(0.0)
        client.close()
        self.emulator.stop()
        freed = disk_of(self.emulator.folder / "data") / MIB
        yield replace(report, missing=missing, statuses=statuses, stored=stored, freed=freed)

    def _shown(self) -> Mapping[str, Any]:
        shown = {name: getattr(self.settings, name) for name in ("minutes", "jobs", "watchers", "pipelines", "kills")}
        return shown | {
            "log MB": self.settings.log_bytes / 1e6,
            "kept": "all" if self.settings.keep else f"{self.settings.kept_seconds:.0f} s",
            "executor": "containers" if self.settings.containers else "plain",
        }

    def _job(self, seconds: float, *, now: bool = False) -> dict[str, Any]:
        """Return a job's body."""
        info = self.emulator.info
        scope = f"/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
        scope += f"/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
        size = int(self.settings.rate * seconds)
        command = f"work {seconds:g} {size} {max(2, round(seconds / 5))}"
        if self.settings.containers:
            count = max(1, round(seconds))
            command = _IN_CONTAINER.format(line=max(1, size // count), pause=seconds / count, count=count)
        return {
            "jobType": "Command",
            "command": command,
            "environmentId": f"{scope}/environments/soak/versions/1",
            "computeId": f"{scope}/computes/{'now' if now else 'soak'}",
            "experimentName": "now" if now else "soak",
            "tags": {"commit": "0123456789abcdef", "team": "vision"},
        }

    def _fill(self, client: Client) -> None:
        """Queue the jobs."""
        client.ask("PUT", client.arm("environments/soak/versions/1"), json={"properties": {"image": IMAGE}})
        for name, nodes in (("soak", self.settings.places), ("now", self.settings.pipelines)):
            scale = {"minNodeCount": 0, "maxNodeCount": nodes, "nodeIdleTimeBeforeScaleDown": "PT120S"}
            cluster = {"vmSize": "Standard_D2s_v3", "vmPriority": "Dedicated", "scaleSettings": scale}
            compute = {"computeType": "AmlCompute", "properties": cluster}
            body: dict[str, Any] = {"location": self.emulator.info["location"], "properties": compute}
            answer = client.ask("PUT", client.arm(f"computes/{name}"), json=body)
            if answer.status_code not in (200, 201, 202):
                raise SystemExit(f"a cluster was refused: {answer.status_code} {answer.text}")
        body = {"properties": self._job(self.settings.job_seconds)}
        for number in range(self.settings.jobs):
            name = f"queued-{number:06}"
            answer = client.ask("PUT", client.arm(f"jobs/{name}"), json=body)
            if answer.status_code != 201:
                raise SystemExit(f"a job was refused: {answer.status_code} {answer.text}")
            self.submitted.append(name)

    def _phase(self, name: str) -> Phase:
        """Put the whole load on the emulator, and return the figures."""
        settings = self.settings
        seconds = settings.minutes * 60
        given = {
            "info": self.emulator.info,
            "environment": self.emulator.environment(),
            "ca": str(self.emulator.folder / "ca-bundle.pem"),
            "port": self.emulator.port,
            "seconds": seconds,
            # Jobs in containers write logs alone.
            "metrics": not settings.containers,
        }
        waiting = sorted(
            one for one, status in self._statuses() if one.startswith("queued-") and status not in TERMINAL
        )
        watching = {
            "watchers": settings.watchers,
            "first": int(waiting[0].rpartition("-")[2]),
            "jobs": int(waiting[-1].rpartition("-")[2]) - int(waiting[0].rpartition("-")[2]) + 1,
            "prefix": "queued-",
            "job": self._job(settings.job_seconds),
        }
        self.numbered += 1
        running = {
            "pipelines": settings.pipelines,
            "prefix": f"pipeline-{self.numbered}",
            "job": self._job(settings.pipeline_seconds, now=True),
            "bytes": int(settings.rate * settings.pipeline_seconds) if not settings.containers else 1,
            "keep": settings.keep,
        }
        every = max(1.0, min(10.0, seconds / 60))
        data = self.emulator.folder / "data"
        before = disk_of(data) / MIB
        began = time.time()
        sampler = Sampler(self._pid, data, every=every)
        sampler.start()
        with (
            self._cleaning(),
            _client("watchers", given | watching) as watchers,
            _client("pipelines", given | running) as pipelines,
        ):
            watched, run = _results(watchers, seconds), _results(pipelines, seconds)
        sampler.stop()
        self.models += run["models"]
        self.submitted += run["jobs"]
        times = {
            kind: [value for _, values in minutes for value in values] for kind, minutes in watched["times"].items()
        }
        warm = min(_WARM_SECONDS, _WARM_SHARE * seconds)
        return Phase(
            name=name,
            seconds=seconds,
            warm=warm,
            latencies={kind: found for kind in sorted(times) if (found := latency_of(times[kind])) is not None},
            by_minute=_by_minute(watched["times"]),
            memory=(
                *memory_of(sampler.samples, warm=warm),
                *live_memory_of("storage, live", read_heap(self.folder / "heap", since=began), warm=warm),
            ),
            errors={**watched["errors"], **run["errors"]},
            ended=watched["ended"],
            pipelines=run["done"],
            log_bytes_read=watched["bytes"],
            disk=(before, disk_of(data) / MIB),
        )

    @contextlib.contextmanager
    def _cleaning(self) -> Iterator[None]:
        """Clean up what ended a while ago, again and again."""
        stop = threading.Event()

        def repeat() -> None:
            while not stop.wait(_CLEAN_SECONDS):
                self._clean(self.settings.kept_seconds)

        if self.settings.keep:
            yield
            return
        with ThreadPoolExecutor(1) as pool:
            repeating = pool.submit(repeat)
            try:
                yield
            finally:
                stop.set()
            repeating.result()

    def _clean(self, older_than: float) -> None:
        """Clean up what ended so many seconds ago."""
        answer = self.emulator.admin("POST", f"clean?older_than={older_than:g}&keep=0")
        answer.raise_for_status()
        self.cleaned.update(answer.json()["runs"])
        self.cleaned_bytes += int(answer.json()["bytes"])

    def _kill(self) -> list[str]:
        """Kill the emulator at random moments; return what is wrong afterwards."""
        chance = random.Random(self.settings.seed)  # noqa: S311 - the moments of every run
        load = Load(self.emulator, command=COMMAND if self.settings.containers else "work 1 1000 2")
        load.start()
        try:
            for number in range(self.settings.kills):
                time.sleep(chance.uniform(0.02, 2.0))
                kill(self.emulator, children=number % 2 == 1)
                self.emulator.start()
        finally:
            load.stop()
        client = load.client()
        gone = load.missing(client)
        client.close()
        self.submitted += load.kept["jobs"]
        return [*load.wrong, *gone]

    def _pid(self) -> int | None:
        return None if self.emulator.process is None else self.emulator.process.pid

    def _statuses(self) -> list[tuple[str, str]]:
        database = sqlite3.connect(f"file:{self.emulator.folder / 'data' / 'store.db'}?mode=ro", uri=True)
        with contextlib.closing(database):
            return database.execute("SELECT id, status FROM runs WHERE job IS NOT NULL").fetchall()

    def _await_end(self) -> dict[str, int]:
        """Return the jobs by status, when all have ended."""
        end = time.monotonic() + _END_SECONDS
        while (found := self.emulator.admin("GET", "status").json()["jobs"]).keys() - set(TERMINAL):
            if time.monotonic() > end:
                break
            time.sleep(1.0)
        return dict(found)

    def _missing(self, client: Client) -> list[str]:
        """Return what was acknowledged and is not there."""
        known = {name for name, _ in self._statuses()} | self.cleaned
        gone = [f"jobs/{name}" for name in self.submitted if name not in known]
        for model in {one.partition("/")[0] for one in self.models}:
            answer = client.ask("GET", client.arm(f"models/{model}/versions"))
            answer.raise_for_status()
            found = {f"{model}/{item['name']}" for item in answer.json()["value"]}
            url = answer.json().get("nextLink")
            while url:
                answer = client.ask("GET", url)
                found |= {f"{model}/{item['name']}" for item in answer.json()["value"]}
                url = answer.json().get("nextLink")
            gone += [f"models/{one}" for one in self.models if one.startswith(f"{model}/") and one not in found]
        return gone

    @staticmethod
    def _log_size(client: Client, name: str) -> int:
        """Return the bytes of a job's logs."""
        answer = client.ask("GET", f"{client.api}/history/v1.0{client.scope}/runs/{name}/details")
        answer.raise_for_status()
        heads = (client.blob("HEAD", address) for address in answer.json()["logFiles"].values())
        return sum(int(head.headers["Content-Length"]) for head in heads)

    def _stored(self, client: Client) -> dict[str, float]:
        """Return MiB of logs: written by jobs, accounted, and on the disk."""
        answer = self.emulator.admin("POST", "clean?older_than=0&keep=0&dry_run=1")
        answer.raise_for_status()
        lines = (
            (self.folder / "written").read_text(encoding="ascii").splitlines() if not self.settings.containers else []
        )
        found = answer.json()
        # Jobs whose models are registered stay: their logs are counted one by one.
        accounted = int(found["bytes"]) + sum(self._log_size(client, name) for name in found["kept"])
        blobs = self.emulator.folder / "data" / "blobs"
        return {
            "written": sum(map(int, lines)) / MIB,
            "accounted": (accounted + self.cleaned_bytes) / MIB,
            "cleaned": self.cleaned_bytes / MIB,
            "disk": disk_of(blobs) / MIB,
        }


@contextlib.contextmanager
def _client(module: str, given: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """Run a client as a process; its work has secrets, which are in no argument."""
    path = os.pathsep.join(str(ROOT / name) for name in ("", "runner", "action"))
    with subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.soak.{module}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(given))
            process.stdin.close()
            process.stdin = None
            yield process
        finally:
            process.kill()


def _results(process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    output, _ = process.communicate(timeout=seconds + _GRACE)
    if process.returncode != 0:
        raise SystemExit("a client failed; its message is above")
    found: dict[str, Any] = json.loads(output)
    return found


def _by_minute(times: Mapping[str, Sequence[tuple[int, Sequence[float]]]]) -> list[float]:
    """Return the 99th percentile of status requests by minute."""
    minutes: dict[int, list[float]] = {}
    for kind in STATUS:
        for minute, values in times.get(kind, ()):
            minutes.setdefault(minute, []).extend(values)
    found: list[Latency | None] = [latency_of(values) for _, values in sorted(minutes.items())]
    return [one.p99 for one in found if one is not None]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="of each phase under load")
    parser.add_argument("--kills", type=int, default=50, help="0 for none")
    parser.add_argument("--jobs", type=int, help="that are queued (2000; 100 with --containers)")
    parser.add_argument("--watchers", type=int, help="(200; 20 with --containers)")
    parser.add_argument("--pipelines", type=int, help="at once (20; 4 with --containers)")
    parser.add_argument("--megabytes", type=float, help="of logs in each phase (1000 an hour)")
    parser.add_argument("--containers", action="store_true", help="execute jobs as containers")
    parser.add_argument("--keep", action="store_true", help="clean nothing up meanwhile")
    parser.add_argument(
        "--any-allocator",
        action="store_true",
        help="where the image's is not installed, continue with that of the machine",
    )
    parser.add_argument("--report", type=Path, help="a file for the figures as JSON")
    return parser.parse_args(arguments)


def settings_of(given: argparse.Namespace) -> Settings:
    """Return the amounts that the arguments mean."""
    amounts: dict[str, Any] = {"jobs": 100, "watchers": 20, "pipelines": 4} if given.containers else {}
    amounts |= {
        name: value for name in ("jobs", "watchers", "pipelines") if (value := getattr(given, name)) is not None
    }
    return Settings(
        minutes=given.minutes,
        kills=given.kills,
        megabytes=given.megabytes,
        containers=given.containers,
        keep=given.keep,
        places=4 if given.containers else Settings.places,
        **amounts,
    )


def allocator(*, required: bool) -> dict[str, str]:
    """Return the variables by which the image sets the allocator of memory.

    Without the library on this machine there are none: the loader would continue without it.

    Raises:
        SystemExit: the library is required, and not on this machine.
    """
    [(preload, library, name, options)] = _ALLOCATOR.findall(
        (ROOT / "runner/aml_emulator/Dockerfile").read_text(encoding="utf-8")
    )
    if is_preloaded(library):
        return {preload: library, name: options}
    if required:
        raise SystemExit(
            f"soak: the image's allocator {library} is not on this machine: apt-get install libjemalloc2"
        )
    return {}


def is_preloaded(library: str) -> bool:
    """Return whether the loader finds a library that ``LD_PRELOAD`` names.

    Only a new process shows it: jemalloc cannot be loaded later.
    """
    program = "print(open('/proc/self/maps').read())"
    maps = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env={**os.environ, "LD_PRELOAD": library},
        capture_output=True,
        text=True,
        check=True,
    )
    return library in maps.stdout


def main() -> int:
    """Run the soak, print its figures, and return 1 if a goal is missed."""
    given = parse()
    settings = settings_of(given)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        of_image = allocator(required=not given.any_allocator)
        print(f"allocator of memory: {' '.join(of_image.values()) or 'that of the machine'}", flush=True)
        variables = {
            **of_image,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner"))),
            "AML_EMULATOR_MAX_JOBS": str(settings.places + settings.pipelines),
            "SOAK_PLACES": str(settings.places),
            "SOAK_PLACES_NOW": str(settings.pipelines),
            "SOAK_DRAIN": str(folder / "drain"),
            "SOAK_WRITTEN": str(folder / "written"),
            "SOAK_HEAP": str(folder / "heap"),
            "SOAK_HEAP_SECONDS": f"{min(60.0, settings.minutes):g}",
            "NODE_OPTIONS": f"--require={Path(__file__).with_name('live_heap.cjs')}",
        }
        module = "aml_emulator" if settings.containers else "tests.support.soak_emulator"
        emulator = Emulator(folder, command=("-m", module), environment=variables)
        try:
            shown = 0
            for report in Soak(settings=settings, emulator=emulator, folder=folder).run():
                for phase in report.phases[shown:]:
                    print("\n".join(lines_of_phase(phase)), flush=True)
                shown = len(report.phases)
                if given.report is not None:
                    given.report.write_text(json.dumps(as_json(report), indent=1) + "\n", encoding="utf-8")
        finally:
            if emulator.process is not None and emulator.process.poll() is None:
                emulator.process.terminate()
                emulator.process.wait()
    print("\n".join(lines_of(report)))
    return 1 if any(goal.met is False for goal in goals_of(report)) else 0


if __name__ == "__main__":
    sys.exit(main())
