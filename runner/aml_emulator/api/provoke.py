"""Events that users provoke: preemption, failure, a state that only Azure causes.

A preemption looks as on AzureML: the job fails with ``UserError`` and a message that begins with PreemptionError
(https://github.com/Azure/MachineLearningNotebooks/issues/1242).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.domain.jobs.compute import is_low_priority, shown_compute
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import RunError
from aml_emulator.store.runs import Run

PREEMPTED: Final = (
    "AzureMLCompute job failed.\nPreemptionError: Nodes of this job got pre-empted. Check if the run has failed or"
    " restarted.\n\tReason: Received pre-emption warning signal"
)
_WORD: Final = re.compile(r"[A-Za-z]{1,64}")
_MOST_TEXT: Final = 4000

Answer = tuple[int, dict[str, Any]]


class Provoked:
    """Answers ``POST /_emulator/jobs/NAME/WHAT``."""

    def __init__(self, workspace: Workspace, jobs: JobService) -> None:
        self._workspace = workspace
        self._jobs = jobs

    def answer(self, name: str, what: str, query: Mapping[str, str]) -> Answer:
        """Provoke it: 404 for an unknown job or event, 409 if the job has ended."""
        run = self._workspace.store.runs.get(name)
        if run is None or run.job is None:
            return 404, {"error": f"there is no job {name}"}
        if run.terminal:
            return 409, {"error": f"the job {name} has ended: {run.status}"}
        match what:
            case "preempt":
                return self._preempt(run, force=query.get("force") == "1")
            case "fail":
                return self._fail(run, query)
            case "show":
                return self._show(run, query.get("status"))
            case _:
                return 404, {"error": f"nothing is called {what}: known are preempt, fail and show"}

    def _preempt(self, run: Run, *, force: bool) -> Answer:
        job = run.job or {}
        if not force and not is_low_priority(self._workspace, job):
            why = f"the nodes of {shown_compute(job)} are dedicated: Azure takes back those of low priority only; force=1 does it all the same"
            return 400, {"error": why}
        return self._ended(run, RunError(code="UserError", message=PREEMPTED))

    def _fail(self, run: Run, query: Mapping[str, str]) -> Answer:
        code, message = query.get("code", "SystemError"), query.get("message", "The job failed on purpose.")
        if not _WORD.fullmatch(code) or len(message) > _MOST_TEXT:
            return 400, {"error": f"code: letters; message: at most {_MOST_TEXT} characters"}
        return self._ended(run, RunError(code=code, message=message))

    def _ended(self, run: Run, error: RunError) -> Answer:
        self._workspace.shown.show(run.id, None)
        if not self._jobs.runner.fail(run.id, error):
            return 409, {"error": f"the job {run.id} is ending"}
        return 200, {"job": run.id, "code": error.code, "message": error.message}

    def _show(self, run: Run, word: str | None) -> Answer:
        if word is not None and not _WORD.fullmatch(word):
            return 400, {"error": "status: a word of letters"}
        self._workspace.shown.show(run.id, word)
        return 200, {"job": run.id, "status": self._workspace.shown.status(run)}
