"""The sweep jobs of a pipeline's sweep nodes. Pure.

A sweep node has the fields of the YAML, and its trial is a command component (azure-ai-ml 1.35,
``entities/_builders/sweep.py``); a sweep job has those of Azure Resource Manager.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError

_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "choice": ("values",),
    "randint": ("upper",),
    "uniform": ("min_value", "max_value"),
    "loguniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "lognormal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "qlognormal": ("mu", "sigma", "q"),
}
"""The arguments of each distribution, in the order of a sweep job's: azure-ai-ml, ``_job/sweep/search_space.py``."""

_LIMITS: Final = {"max_total_trials": "maxTotalTrials", "max_concurrent_trials": "maxConcurrentTrials"}
_TIMES: Final = {"timeout": "timeout", "trial_timeout": "trialTimeout"}
_POLICY: Final = {
    "delay_evaluation": "delayEvaluation",
    "evaluation_interval": "evaluationInterval",
    "slack_amount": "slackAmount",
    "slack_factor": "slackFactor",
    "truncation_percentage": "truncationPercentage",
}
_INPUT: Final = re.compile(r"\$\{\{\s*inputs\.([A-Za-z_]\w*)\s*\}\}")


def sweep_properties(
    node: str, fields: Mapping[str, Any], command: Mapping[str, Any], *, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the properties of a sweep job that a sweep node says.

    Args:
        fields: the node's, without bindings.
        command: those of a command job that its component gives.
        inputs: the declared inputs of its component.

    Raises:
        NotSupportedError: a distribution, by its name.
        InvalidError: values that are none, or for an input that the component does not have.
    """
    space = {
        name: _distribution(node, name, given or {}) for name, given in (fields.get("search_space") or {}).items()
    }
    text = str(command.get("command") or "")
    for name in space:
        if name not in inputs and not re.search(rf"\$\{{\{{\s*search_space\.{re.escape(name)}\s*\}}\}}", text):
            raise InvalidError(f"The node '{node}': search_space.{name} is no input of its component.")
    objective, limits = fields.get("objective") or {}, fields.get("limits") or {}
    trial = ("codeId", "environmentId", "environmentVariables", "distribution", "resources")
    return {
        "jobType": "Sweep",
        # A sampled value is the trial's input of that name, as in azure-ai-ml's own ``Sweep._to_job``.
        "trial": {
            **{name: command[name] for name in trial if name in command},
            "command": _INPUT.sub(
                lambda match: f"${{{{search_space.{match[1]}}}}}" if match[1] in space else match[0], text
            ),
        },
        "searchSpace": space,
        "samplingAlgorithm": _sampling(fields.get("sampling_algorithm")),
        "objective": {"goal": objective.get("goal"), "primaryMetric": objective.get("primary_metric")},
        "earlyTermination": _policy(fields.get("early_termination") or {}),
        "limits": {
            "jobLimitsType": "Sweep",
            **{key: _whole(node, name, limits[name]) for name, key in _LIMITS.items() if _given(limits, name)},
            **{key: _duration(limits[name]) for name, key in _TIMES.items() if _given(limits, name)},
        },
        **{name: command[name] for name in ("identity", "queueSettings", "resources") if name in command},
    }


def _given(fields: Mapping[str, Any], name: str) -> bool:
    return fields.get(name) not in (None, "")


def _distribution(node: str, name: str, given: Mapping[str, Any]) -> list[Any]:
    """Return a parameter's distribution and its arguments, as a sweep job has them."""
    kind = str(given.get("type") or "").lower()
    if kind not in _ARGUMENTS:
        raise NotSupportedError(f"the node '{node}': the distribution '{kind}' of search_space.{name}")
    arguments = [given.get(argument) for argument in _ARGUMENTS[kind]]
    return [kind, [_number(one) for one in arguments if one is not None]]


def _number(value: Any) -> Any:
    """Return an argument as a number, if it came as text from an input."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _sampling(given: Any) -> dict[str, Any]:
    """Return the sampling algorithm: a word, or an object with its rule and seed."""
    fields = given if isinstance(given, Mapping) else {"type": given}
    found = {
        "samplingAlgorithmType": str(fields.get("type") or "random").capitalize(),
        "rule": str(fields["rule"]).capitalize() if fields.get("rule") else None,
        "seed": fields.get("seed"),
        "logbase": fields.get("logbase"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _policy(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the policy.

    Its type is the REST interface's word, or the YAML's (``median_stopping``).
    """
    if not given:
        return None
    kind = str(given.get("policy_type") or given.get("type") or "").replace("_", "")
    return {"policyType": kind, **{key: given[name] for name, key in _POLICY.items() if _given(given, name)}}


def _whole(node: str, name: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise InvalidError(f"The node '{node}': limits.{name} is a whole number, not '{value}'.") from error


def _duration(value: Any) -> str:
    """Return a limit as a duration of ISO 8601.

    azure-ai-ml sends a node's limits in seconds. Another text stays as it is.
    """
    text = str(value)
    return f"PT{text}S" if text.isdigit() else text
