"""The runs of sweep jobs: their trials, and the best of them."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.domain.clusters import seconds_of
from aml_emulator.domain.environments import image_of_environment
from aml_emulator.domain.errors import DomainError, InvalidError, NotSupportedError
from aml_emulator.domain.jobs.check import check_job
from aml_emulator.domain.jobs.composed import TRIAL, SubmitChild, end_composed, write_line
from aml_emulator.domain.jobs.compute import check_compute, compute_of
from aml_emulator.domain.jobs.places import put_output_asset, register_outputs
from aml_emulator.domain.jobs.sweeps.search import Search, Value, read_search
from aml_emulator.domain.workspace import Workspace
from aml_emulator.reading import whole
from aml_emulator.store.runs import Run

_KINDS: Final = ("bandit", "medianstopping", "truncationselection")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy of early termination.

    Attributes:
        kind: in small letters.
        interval: after how many values trials are compared.
        delay: how many values come before the first comparison.
        slack_factor, slack_amount: how far below the best a trial may be; of ``bandit``.
        percentage: how many of the trials end at each comparison; of ``truncationselection``.
    """

    kind: str
    interval: int
    delay: int
    slack_factor: float = 0.0
    slack_amount: float = 0.0
    percentage: int = 0

    def ended(self, histories: Mapping[str, Sequence[float]], active: Sequence[str], *, maximize: bool) -> list[str]:
        """Return the active trials that are to end.

        Args:
            histories: the values of the primary metric of each trial, in their order.
            active: the trials that run.
            maximize: whether higher values are better.
        """
        signs = 1.0 if maximize else -1.0
        signed = {name: [signs * value for value in values] for name, values in histories.items()}
        return [name for name in active if self._loses(name, signed)]

    def _loses(self, name: str, signed: Mapping[str, Sequence[float]]) -> bool:
        own = signed.get(name) or ()
        count = len(own) // self.interval * self.interval
        if count == 0 or count < self.delay:
            return False
        # Others are compared as far as this one has come.
        others = {other: values[:count] for other, values in signed.items() if len(values) >= count}
        best = max(own[:count])
        if self.kind == "bandit":
            leader = max(max(values) for values in others.values())
            if self.slack_amount > 0:
                return best + self.slack_amount < leader
            # The documented bound is best/(1 + f), and best·(1 + f) of values that are minimized.
            return best < (leader / (1 + self.slack_factor) if leader > 0 else leader * (1 + self.slack_factor))
        if self.kind == "medianstopping":
            means = [statistics.fmean(values) for values in others.values()]
            return best < statistics.median(means)
        ranked = sorted(others, key=lambda other: max(others[other]))
        return name in ranked[: len(ranked) * self.percentage // 100]


def read_policy(job: Mapping[str, Any]) -> Policy | None:
    """Return the policy of a sweep job's properties, None if it has none.

    Raises:
        NotSupportedError: a policy, by its type.
        InvalidError: values that make no sense.
    """
    given = job.get("earlyTermination") or {}
    if not given:
        return None
    kind = str(given.get("policyType") or "").lower()
    if kind not in _KINDS:
        raise NotSupportedError(f"earlyTermination of type '{given.get('policyType')}'")
    policy = Policy(
        kind=kind,
        interval=int(given.get("evaluationInterval") or 1),
        delay=int(given.get("delayEvaluation") or 0),
        slack_factor=float(given.get("slackFactor") or 0.0),
        slack_amount=float(given.get("slackAmount") or 0.0),
        percentage=int(given.get("truncationPercentage") or 0),
    )
    if policy.interval < 1 or policy.delay < 0 or policy.slack_factor < 0 or policy.slack_amount < 0:
        raise InvalidError("earlyTermination has a number that is too small.")
    if kind == "truncationselection" and not 1 <= policy.percentage <= 99:
        raise InvalidError("earlyTermination.truncationPercentage is a number from 1 to 99.")
    return policy


SWEEP_LOG: Final = "azureml-logs/hyperdrive.txt"
HYPERPARAMETERS: Final = "hyperparameters"
BEST: Final = "best_child_run_id"
"""The property of a sweep's run that azure-ai-ml reads (``SWEEP_JOB_BEST_CHILD_RUN_ID_PROPERTY_NAME``)."""
OBJECTIVE: Final = "primary_metric_config"
"""The property of a sweep's run with its primary metric, as JSON.

Of published runs: https://learn.microsoft.com/azure/machine-learning/how-to-tune-hyperparameters-v1.
"""
SCORE: Final = "score"
"""The property of a sweep's run with the best value."""

FAILED_TRIALS: Final = "Marking the experiment as failed because initial child jobs have failed due to user error"
"""The service's own words."""

_FIRST: Final = 3
"""So many first trials that fail end a sweep."""

_MOST: Final = 1000
"""https://learn.microsoft.com/azure/machine-learning/how-to-tune-hyperparameters: max_total_trials is from 1 to 1000."""

_EXPRESSION: Final = re.compile(r"\$\{\{\s*search_space\.([A-Za-z_]\w*)\s*\}\}")

Remind = Callable[[Run, float], None]


class SweepRuns:
    """Runs the trials of sweep jobs; an `aml_emulator.domain.jobs.composed.Advancing`.

    Args:
        submit: submits the job of a trial.
        cancel: cancels a job.
        remind: has a job advanced after so many seconds.
    """

    def __init__(
        self, workspace: Workspace, *, submit: SubmitChild, cancel: Callable[[str], object], remind: Remind
    ) -> None:
        self._workspace = workspace
        self._submit = submit
        self._cancel = cancel
        self._remind = remind

    def check(self, job: Mapping[str, Any], *, name: str = "") -> None:
        """See `Advancing`."""
        objective = job.get("objective") or {}
        if str(objective.get("goal") or "").lower() not in ("minimize", "maximize"):
            raise InvalidError("objective.goal is Minimize or Maximize.")
        if not objective.get("primaryMetric"):
            raise InvalidError("objective.primaryMetric names no metric.")
        most_trials(job)
        most_at_once(job)
        read_policy(job)
        for limit in ("timeout", "trialTimeout"):
            text = (job.get("limits") or {}).get(limit)
            if text is not None and seconds_of(str(text)) is None:
                raise InvalidError(f"limits.{limit} is not a duration of days, hours, minutes and seconds: '{text}'")
        # As on Azure, a parameter that the search space does not have fails the sweep, and not its submission.
        named = dict.fromkeys(_EXPRESSION.findall(str((job.get("trial") or {}).get("command"))), "")
        trial = trial_job(job, {**named, **read_search(job, seed="").values(0)}, parent="", number=0)
        check_job(trial)
        if self._workspace.store.assets.compute(compute_of(self._workspace, trial)) is None:
            # Recorded in March 2026: sweep_job/e2etests, test_sweep_job_submit_with_resources.
            experiment = job.get("experimentName") or "Default"
            raise InvalidError(f"{experiment}: Compute Not Found for run ID : {name}", reasons=())
        check_compute(self._workspace, trial)
        image_of_environment(self._workspace, str(trial["environmentId"]))

    def advance(self, run: Run) -> None:
        """See `Advancing`."""
        job, runs = run.job or {}, self._workspace.store.runs
        numbered = ((whole(child.properties.get(TRIAL, "")), child) for child in runs.children(run.id))
        trials = {number: child for number, child in numbered if number is not None}
        search = read_search(job, seed=run.id)
        total = min(most_trials(job), search.count or _MOST)
        stopping = run.status == "CancelRequested" or self._is_late(run)
        failing = _all_failed(trials, total)
        if not (stopping or failing):
            self._terminate(run, trials)
            if not self._begin_trials(run, search, trials, total):
                return
        active = [child for child in trials.values() if not child.terminal]
        if active:
            if stopping or failing:
                for child in active:
                    self._cancel(child.id)
            return
        if len(trials) >= total or stopping or failing:
            self._conclude(run, trials, failing=failing)

    def fail(self, run: Run, message: str) -> None:
        """See `Advancing`."""
        self._end(run, "Failed", message)

    def _is_late(self, run: Run) -> bool:
        seconds = _timeout(run.job or {})
        return seconds is not None and self._workspace.clock() - run.created >= seconds

    def _begin_trials(self, run: Run, search: Search, trials: dict[int, Run], total: int) -> bool:
        """Begin as many trials as may run; return whether the sweep continues."""
        job = run.job or {}
        active = sum(1 for child in trials.values() if not child.terminal)
        for number in range(total):
            if active >= most_at_once(job):
                break
            if number in trials:
                continue
            if not trials and (seconds := _timeout(job)) is not None:
                self._remind(run, seconds)
            self._workspace.store.runs.advance(run.id, "Running")
            try:
                trials[number] = self._begin_trial(run, search.values(number), number)
            except DomainError as error:
                self._end(run, "Failed", f"The trial {number} cannot begin: {error.message}")
                return False
            active += 1
        return True

    def _begin_trial(self, run: Run, values: Mapping[str, Value], number: int) -> Run:
        """Begin the trial of a number, and return its run."""
        trial = {**trial_job(run.job or {}, values, parent=run.id, number=number), "experimentName": run.experiment}
        written = json.dumps(values)
        self._log(run, f"Trying to sample '1' jobs from the hyperparameter space: {written}")
        properties = {TRIAL: str(number), "azureml.runsource": "azureml.scriptrun", HYPERPARAMETERS: written}
        return self._submit(f"{run.id}_{number}", trial, properties)

    def _terminate(self, run: Run, trials: Mapping[int, Run]) -> None:
        """Cancel the trials that the policy ends."""
        job = run.job or {}
        policy = read_policy(job)
        if policy is None:
            return
        metric, maximize = objective_of(job)
        histories = {child.id: self._values(child, metric) for child in trials.values()}
        active = [child.id for child in trials.values() if child.status in ("Running", "Preparing")]
        for name in policy.ended(histories, active, maximize=maximize):
            self._log(run, f"The early termination policy ends {name}")
            self._cancel(name)

    def _values(self, run: Run, metric: str) -> list[float]:
        found, after = [], 0
        while True:
            page, end = self._workspace.store.metrics.history(run.id, metric, limit=1000, after=after)
            found += [one.value for one in page if not math.isnan(one.value)]
            if end is None:
                return found
            after = end

    def _conclude(self, run: Run, trials: Mapping[int, Run], *, failing: bool) -> None:
        metric, maximize = objective_of(run.job or {})
        scores = [
            (max(values) if maximize else min(values), child.id)
            for _, child in sorted(trials.items())
            if child.status == "Completed" and (values := self._values(child, metric))
        ]
        if scores:
            score, best = max(scores, key=lambda one: one[0]) if maximize else min(scores, key=lambda one: one[0])
            self._take_outputs(run, best, score)
        if run.status == "CancelRequested":
            self._end(run, "Canceled")
        elif failing:
            self._end(run, "Failed", FAILED_TRIALS)
        else:
            problems = register_outputs(self._workspace, self._workspace.store.runs.require(run.id))
            self._end(run, "Failed" if problems else "Completed", " ".join(problems) or None)

    def _take_outputs(self, run: Run, best: str, score: float) -> None:
        """Make the outputs of the best trial those of the sweep."""
        runs = self._workspace.store.runs
        outputs = runs.require(best).outputs
        with self._workspace.store.transaction():
            runs.tag(run.id, {}, properties={BEST: best, SCORE: repr(score)})
            runs.set_outputs(run.id, outputs)
            for name, place in outputs.items():
                if place["stored"]:
                    put_output_asset(self._workspace, run.id, name)

    def _end(self, run: Run, status: str, message: str | None = None) -> None:
        said = "The sweep has ended"
        end_composed(self._workspace, run, status, message, log=SWEEP_LOG, said=said, cancel=self._cancel)

    def _log(self, run: Run, line: str) -> None:
        write_line(self._workspace, run, SWEEP_LOG, line)


def trial_job(job: Mapping[str, Any], values: Mapping[str, Value], *, parent: str, number: int) -> dict[str, Any]:
    """Return the properties of a trial's command job.

    Raises:
        InvalidError: the command names a parameter that the search space does not have.
    """
    trial = job.get("trial") or {}

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise InvalidError(f"The command refers to {match[0]}, and the search space has no '{match[1]}'.")
        return str(values[match[1]])

    limits = job.get("limits") or {}
    found = {
        "jobType": "Command",
        "command": _EXPRESSION.sub(value, str(trial.get("command") or "")),
        "codeId": trial.get("codeId"),
        "environmentId": trial.get("environmentId"),
        "environmentVariables": trial.get("environmentVariables"),
        "distribution": trial.get("distribution"),
        "resources": trial.get("resources") or job.get("resources"),
        "queueSettings": job.get("queueSettings"),
        "identity": job.get("identity"),
        "computeId": job.get("computeId"),
        "experimentName": job.get("experimentName"),
        "displayName": f"{job.get('displayName') or parent}_{number}",
        "parentJobName": parent,
        "inputs": job.get("inputs"),
        "outputs": {
            name: {key: value for key, value in (output or {}).items() if key not in ("assetName", "assetVersion")}
            for name, output in (job.get("outputs") or {}).items()
        },
        "limits": {"jobLimitsType": "Command", "timeout": limits["trialTimeout"]}
        if limits.get("trialTimeout")
        else None,
    }
    return {name: value for name, value in found.items() if value not in (None, {}, "")}


def most_trials(job: Mapping[str, Any]) -> int:
    """Return how many trials a sweep may have."""
    return _limit(job, "maxTotalTrials", _MOST)


def most_at_once(job: Mapping[str, Any]) -> int:
    """Return how many trials a sweep may have at once."""
    return _limit(job, "maxConcurrentTrials", most_trials(job))


def _timeout(job: Mapping[str, Any]) -> float | None:
    """Return the seconds that a sweep may take, None for no bound."""
    return seconds_of(str((job.get("limits") or {}).get("timeout") or ""))


def _limit(job: Mapping[str, Any], name: str, default: int) -> int:
    value = (job.get("limits") or {}).get(name)
    if value is None:
        return default
    if not 1 <= int(value) <= _MOST:
        raise InvalidError(f"limits.{name} is a number from 1 to {_MOST}, not {value}.")
    return int(value)


def sweep_properties(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a new sweep's run."""
    return {
        OBJECTIVE: _objective(job),
        "resume_from": "null",
        "runTemplate": "HyperDrive",
        "azureml.runsource": "hyperdrive",
        "platform": "AML",
    }


def sweep_tags(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags that the service gives a new sweep, in its words.

    Recorded in March 2026: sweep_job/e2etests, test_sweep_job_submit and test_sweep_job_await_completion.
    """
    algorithm, policy = job.get("samplingAlgorithm") or {}, dict(job.get("earlyTermination") or {})
    kind, seconds = str(algorithm.get("samplingAlgorithmType") or "Random"), _timeout(job)
    rule = {key: algorithm.get(key) for key in ("rule", "logbase", "seed")} if kind.lower() == "random" else {}
    given = {
        "max_concurrent_jobs": most_at_once(job),
        "max_total_jobs": most_trials(job),
        **({} if seconds is None else {"max_duration_minutes": int(seconds // 60)}),
        "policy_config": {
            "name": policy.pop("policyType", "Default"),
            "properties": {re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in policy.items()},
        },
        "generator_config": {
            "name": kind.upper(),
            "parameter_space": job.get("searchSpace"),
            "properties": {**rule, "rule": str(rule["rule"] or "Random").capitalize()} if rule else {},
        },
    }
    texts = {key: json.dumps(value, separators=(",", ":")) for key, value in given.items()}
    return {f"_aml_system_{key}": text for key, text in {**texts, "primary_metric_config": _objective(job)}.items()}


def _objective(job: Mapping[str, Any]) -> str:
    metric, maximize = objective_of(job)
    return json.dumps({"name": metric, "goal": "maximize" if maximize else "minimize"}, separators=(",", ":"))


def objective_of(job: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a sweep's primary metric, and whether it is maximized."""
    objective = job.get("objective") or {}
    return str(objective.get("primaryMetric")), str(objective.get("goal")).lower() == "maximize"


def _all_failed(trials: Mapping[int, Run], total: int) -> bool:
    """Return whether the first trials have failed, and none has completed."""
    statuses = [child.status for child in trials.values()]
    return statuses.count("Failed") >= min(_FIRST, total) and "Completed" not in statuses


def changed_sweep(known: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
    """Return the fields that differ in another submission of a sweep."""
    compared = ("trial", "searchSpace", "samplingAlgorithm", "objective", "inputs", "limits")
    return [name for name in compared if (known.get(name) or {}) != (sent.get(name) or {})]
