"""A service whose sweeps' trials are ended by hand."""

from __future__ import annotations

from typing import Any

from aml_emulator.store.metrics import Metric
from tests.unit.emulator.parts import WS, Service


class Sweeps(Service):
    """A service whose trials are ended by hand."""

    def put(self, name: str, **properties: Any) -> Any:
        """Submit a sweep, and return the answer."""
        body = {
            "jobType": "Sweep",
            "experimentName": "search",
            "trial": {
                "command": "python train.py --lr ${{search_space.lr}} --k ${{ search_space.k }}",
                "environmentId": self.environment(),
            },
            "searchSpace": {"lr": ["uniform", [0.1, 0.2]], "k": ["choice", [["a", "b"]]]},
            "samplingAlgorithm": {"samplingAlgorithmType": "Random"},
            "objective": {"goal": "Maximize", "primaryMetric": "accuracy"},
            "limits": {"jobLimitsType": "Sweep", "maxTotalTrials": 4, "maxConcurrentTrials": 2},
            **properties,
        }
        answer = self.call("PUT", f"{WS}/jobs/{name}", {"properties": body})
        self.jobs.settle()
        return answer

    def begun(self) -> list[str]:
        """Return the trials that the executor was given."""
        return [spec.run_id for spec in self.runner.submitted]

    def log(self, trial: str, *values: float, name: str = "accuracy") -> None:
        """Have a trial log values."""
        self.store.runs.advance(trial, "Running")
        for value in values:
            self.store.metrics.log(trial, [Metric(key=name, value=value, timestamp=1, step=0)])
        self.jobs.settle()

    def end(self, trial: str, status: str = "Completed") -> None:
        """End a trial."""
        self.store.runs.finish(trial, status)
        self.jobs.settle()

    def shown(self, name: str) -> Any:
        """Return a sweep as it is shown."""
        return self.call("GET", f"{WS}/jobs/{name}").json["properties"]
