"""Decide a job's gate: read its metrics and those of the baseline, then ask the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aml_train.config.model import BaselineConfig, GateRule, JsonValue
from aml_train.errors import GateFailedError, InvalidError
from aml_train.gate.baseline import RunBaseline, ValuesBaseline, read_value, read_values
from aml_train.gate.decide import Baseline, Decision, Evidence, decide_rule
from aml_train.gate.history import MetricPoint
from aml_train.jobs.clock import Clock
from aml_train.jobs.service import JobService, ModelView
from aml_train.jobs.watch import settle_metrics
from aml_train.models import TAG_JOB, TAG_METRIC

#: Bytes of a file that a value is read from.
_MOST: Final = 16 << 20
_BOOTSTRAP: Final = "`baseline.bootstrap: true` lets the first model pass; `no-baseline: skip` does for one rule."


@dataclass(frozen=True, kw_only=True)
class Gated:
    """What a job was judged by, and how.

    Attributes:
        last: every metric's last value.
        histories: the values of those that rules name.
        decision: the gate's.
    """

    last: Mapping[str, float]
    histories: Mapping[str, Sequence[MetricPoint]]
    decision: Decision


def decide_gate(
    service: JobService,
    job: str,
    rules: Sequence[GateRule],
    baseline: BaselineConfig | None,
    *,
    clock: Clock,
    pause: float,
) -> Gated:
    """Let the metrics of an ended job settle, and decide every rule.

    Args:
        service: the workspace.
        job: the job's name.
        rules: the gate.
        baseline: what its rules compare with, as it is now.
        clock: time.
        pause: seconds between two readings of the metrics.

    Raises:
        ServiceError: the service does not answer.
        InvalidError: the baseline's file cannot be used.
    """
    in_files = {rule.metric: rule.source for rule in rules if rule.source is not None}
    wanted = sorted({name for rule in rules for name in (rule.metric, *rule.rule.metrics)} - set(in_files))
    logged, read = settle_metrics(service, job, wanted, clock=clock, pause=pause)
    values, problems = _values(service, job, in_files)
    last = {name: value for name, value in logged.items() if name not in in_files} | values
    histories = {**read, **{name: (MetricPoint(step=0, value=one, timestamp=0),) for name, one in values.items()}}
    found, why = find_baseline(service, rules, baseline)
    evidence = Evidence(
        histories=dict.fromkeys(last, ()) | histories, problems=problems, baseline=found, no_baseline=why
    )
    bootstrap = baseline is not None and baseline.bootstrap and found is None
    decisions = []
    for rule in rules:
        policies = replace(rule.policies, no_baseline="skip") if bootstrap else rule.policies
        decisions.append(decide_rule(rule.metric, rule.rule, rule.where, evidence, policies))
    return Gated(last=last, histories=histories, decision=Decision(rules=tuple(decisions)))


def _values(
    service: JobService, job: str, sources: Mapping[str, JsonValue]
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the values that files of the job have, and why others have none, by the name of the metric."""
    contents = {file: service.read_artifact(job, file, most=_MOST) for file in {one.file for one in sources.values()}}
    values: dict[str, float] = {}
    problems: dict[str, str] = {}
    for name, source in sources.items():
        content = contents[source.file]
        if content is None:
            problems[name] = f"the job wrote no {source.file}"
        elif len(content) > _MOST:
            problems[name] = f"{source.file} has more than {_MOST} bytes"
        else:
            try:
                values[name] = read_value(content, source.pointer)
            except ValueError as error:
                problems[name] = f"{source.file}: {error}"
    return values, problems


def check_baseline(service: JobService, rules: Sequence[GateRule], baseline: BaselineConfig | None) -> None:
    """Find out before anything is trained whether the gate could be met: a missing baseline fails it whatever the metrics are.

    Raises:
        GateFailedError: rules need a baseline, and there is none.
        ServiceError: the service does not answer.
        InvalidError: the baseline's file cannot be used.
    """
    strict = [rule for rule in rules if rule.rule.needs_baseline and rule.policies.no_baseline == "fail"]
    if not strict or (baseline is not None and baseline.bootstrap):
        return
    found, why = find_baseline(service, strict, baseline)
    if found is None:
        raise GateFailedError(
            f"The gate cannot be met: {why}, and {strict[0].metric} is compared with it ({strict[0].where}).",
            hint=f"Nothing was submitted. {_BOOTSTRAP}",
        )


def find_baseline(
    service: JobService, rules: Sequence[GateRule], config: BaselineConfig | None
) -> tuple[Baseline | None, str]:
    """Return the baseline, or None and why there is none. Nothing is asked where no rule needs it."""
    metrics = sorted({rule.metric for rule in rules if rule.rule.needs_baseline})
    if config is None:
        return None, "no `baseline` is configured"
    if not metrics:
        return None, "no rule asks for it"
    if config.file is not None:
        return _of_file(config), ""
    if config.job is not None:
        histories = _of_job(service, config.job, metrics)
        if histories is None:
            return None, f"there is no job {config.job}"
        return RunBaseline(title=f"the job {config.job}", histories=histories), ""
    return _of_model(service, config, metrics)


def _of_file(config: BaselineConfig) -> Baseline | None:
    file = config.file
    if file is None:
        return None
    try:
        return ValuesBaseline(title=file.name, values=read_values(file.read_bytes()), stands_for_all=True)
    except FileNotFoundError:
        return None if config.bootstrap else _unusable(config, "there is no such file")
    except OSError as error:
        return _unusable(config, str(error.strerror))
    except ValueError as error:
        return _unusable(config, str(error))


def _unusable(config: BaselineConfig, why: str) -> Baseline | None:
    raise InvalidError(
        f"{config.where}: the baseline {config.file} cannot be read: {why}",
        hint='It is a JSON file of metrics and numbers, such as {"val/accuracy": 0.95}.',
    )


def _of_job(service: JobService, name: str, metrics: Sequence[str]) -> dict[str, Sequence[MetricPoint]] | None:
    if service.find(name) is None:
        return None
    known = service.last_metrics(name)
    return {metric: service.metric_history(name, metric) for metric in metrics if metric in known}


def _of_model(service: JobService, config: BaselineConfig, metrics: Sequence[str]) -> tuple[Baseline | None, str]:
    name = config.model or ""
    wanted = next(
        f"{key} {value}" for key in ("stage", "tag", "version") if (value := getattr(config, key)) is not None
    )
    versions = service.models(name)
    model = next((version for version in versions if _is_wanted(version, config)), None)
    if model is None:
        has = f"of its {len(versions)} versions none is" if versions else "there is no such model"
        return None, f"the model {name} with {wanted} is missing ({has})"
    title = f"{name} version {model.version} ({wanted})"
    job = model.tags.get(TAG_JOB)
    histories = _of_job(service, job, metrics) if job is not None else None
    if histories is not None:
        return RunBaseline(title=title, histories=histories), ""
    # Its job is gone; what the gate read at its end is kept with the model.
    values = {
        tag.removeprefix(TAG_METRIC): float(value) for tag, value in model.tags.items() if tag.startswith(TAG_METRIC)
    }
    return ValuesBaseline(title=title, values=values, stands_for_all=False), ""


def _is_wanted(model: ModelView, config: BaselineConfig) -> bool:
    if config.version is not None:
        return model.version == config.version
    if config.stage is not None:
        return config.stage.lower() == model.staged
    name, _, value = (config.tag or "").partition("=")
    return name in model.tags and (not value or model.tags[name] == value)
