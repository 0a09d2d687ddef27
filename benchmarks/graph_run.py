"""The overhead of nodes of the local AzureML, and the cost of a large sweep.

Usage: ``python -m benchmarks.graph_run [--nodes 50] [--trials 500]``.

An executor without containers ends each job at once, so that what is left is the emulator's own work. Baselines are
command jobs, one submitted after the other has completed; the pipelines have as many nodes, each after the other and
side by side.

Goals: at most 50 ms for a node more than for a command job; a sweep of 500 trials leaves at most 150 MiB (157 MB) in the
emulator's process, and its page is there in at most 1 s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import requests

from benchmarks.measuring import resident_megabytes
from tests.support.emulator_client import TERMINAL, Client
from tests.support.emulator_process import Emulator, executing_by

_PAUSE: Final = 0.01
_WAIT: Final = 600.0


def main() -> int:
    """Measure, print a table, and return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=50, help="nodes of each pipeline  [default: 50]")
    parser.add_argument("--trials", type=int, default=500, help="trials of the sweep  [default: 500]")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        executing_by("tests.support.instant_emulator", Path(folder)) as emulator,
    ):
        graphs = _Graphs(emulator)
        graphs.run("warm", graphs.pipeline(2, chained=True))
        alone = statistics.median(graphs.run(f"alone-{number}", graphs.command()) for number in range(20))
        print(f"a command job                 {alone * 1000:.0f} ms")
        for chained, label in ((True, "each after the other"), (False, "side by side")):
            took = graphs.run(f"graph-{chained}", graphs.pipeline(given.nodes, chained=chained)) / given.nodes
            print(
                f"a node of {given.nodes}, {label:<20} {took * 1000:.0f} ms, {(took - alone) * 1000:+.0f} ms  "
                f"(goal: at most +50 ms)"
            )
        before = resident_megabytes(emulator.process)
        took = graphs.run("search", graphs.sweep(given.trials))
        after = resident_megabytes(emulator.process)
        pages = [graphs.page("search") for _ in range(5)]
        print(f"a sweep of {given.trials} trials          {took:.1f} s, {took * 1000 / given.trials:.0f} ms each")
        print(f"memory of the emulator        {before:.0f} MB before, {after:.0f} MB after  (goal: at most 157 MB)")
        print(f"the sweep's page              {statistics.median(pages):.2f} s  (goal: at most 1 s)")
    return 0


class _Graphs:
    """Submits jobs to an emulator, and waits for their ends."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._client = Client(emulator.environment(), emulator.info)
        self._put("environments/instant/versions/1", {"image": "nothing:1"})
        self._environment = f"{self._client.scope}/environments/instant/versions/1"
        self._compute = f"{self._client.scope}/computes/{emulator.info['compute']}"
        folder = {"type": "uri_folder"}
        self._component = self._put(
            "components/step/versions/1",
            {
                "componentSpec": {
                    "name": "step",
                    "version": "1",
                    "type": "command",
                    "command": "say ${{inputs.number}}\noutput next file text",
                    "environment": f"azureml:{self._environment}",
                    "inputs": {"number": {"type": "string"}, "data": {**folder, "optional": True}},
                    "outputs": {"next": folder},
                    "is_deterministic": False,
                }
            },
        )

    def command(self) -> dict[str, Any]:
        return {
            "jobType": "Command",
            "command": "say hello\noutput next file text",
            "environmentId": self._environment,
            "computeId": self._compute,
            "outputs": {"next": {"jobOutputType": "uri_folder"}},
        }

    def pipeline(self, nodes: int, *, chained: bool) -> dict[str, Any]:
        jobs: dict[str, Any] = {}
        for number in range(nodes):
            inputs = {"number": {"job_input_type": "literal", "value": str(number)}}
            if chained and number:
                source = f"${{{{parent.jobs.step{number - 1}.outputs.next}}}}"
                inputs["data"] = {"job_input_type": "literal", "value": source}
            jobs[f"step{number}"] = {
                "name": f"step{number}",
                "type": "command",
                "_source": "YAML.COMPONENT",
                "componentId": self._component,
                "inputs": inputs,
            }
        settings = {"default_compute": self._compute, "_source": "YAML.JOB"}
        return {"jobType": "Pipeline", "jobs": jobs, "settings": settings}

    def sweep(self, trials: int) -> dict[str, Any]:
        return {
            "jobType": "Sweep",
            "trial": {
                "command": "metric score 0 ${{search_space.rate}}\nsay ${{search_space.rate}}",
                "environmentId": self._environment,
            },
            "computeId": self._compute,
            "searchSpace": {"rate": ["uniform", [0.1, 0.9]], "depth": ["choice", [[1, 2, 3]]]},
            "samplingAlgorithm": {"samplingAlgorithmType": "Random"},
            "objective": {"goal": "Maximize", "primaryMetric": "score"},
            "limits": {"jobLimitsType": "Sweep", "maxTotalTrials": trials, "maxConcurrentTrials": 20},
        }

    def run(self, name: str, properties: Mapping[str, Any]) -> float:
        """Run a job to its end; return the seconds."""
        began = time.perf_counter()
        self._put(f"jobs/{name}", {"experimentName": "graphs", **properties})
        while (status := self._status(name)) not in TERMINAL:
            if time.perf_counter() - began > _WAIT:
                raise SystemExit(f"{name} is {status} after {_WAIT:g} s")
            time.sleep(_PAUSE)
        if status != "Completed":
            raise SystemExit(f"{name} is {status}")
        return time.perf_counter() - began

    def page(self, name: str) -> float:
        """Read the page of a run; return the seconds."""
        began = time.perf_counter()
        with requests.Session() as session:
            session.trust_env = False
            session.get(f"http://127.0.0.1:{self._emulator.port}/ui/runs/{name}", timeout=60).raise_for_status()
        return time.perf_counter() - began

    def _status(self, name: str) -> str:
        answer = self._client.ask("GET", self._client.arm(f"jobs/{name}"))
        return str(answer.json()["properties"]["status"])

    def _put(self, path: str, properties: Mapping[str, Any]) -> str:
        answer = self._client.ask("PUT", self._client.arm(path), json={"properties": properties})
        if not answer.ok:
            raise SystemExit(f"{path} was refused: {answer.status_code} {answer.text}")
        return str(answer.json()["id"])


if __name__ == "__main__":
    sys.exit(main())
