"""The jobs of a pipeline's nodes.

Each is a component, with the inputs and outputs of its node.

A component's ``componentSpec`` is its YAML (https://learn.microsoft.com/azure/machine-learning/reference-yaml-component-command,
``…-component-pipeline``), with ids in the place of environment and code.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotFoundError, NotSupportedError
from aml_emulator.domain.jobs.check import PRIORITIES
from aml_emulator.domain.jobs.pipelines.graph import (
    COMMAND,
    EXPRESSION,
    PARALLEL,
    PARALLEL_SETTINGS,
    PARENT_NAME,
    PIPELINE,
    SWEEP,
    Node,
    Source,
    bound_input,
    text_of,
)
from aml_emulator.domain.jobs.types import COMPONENT_SHAPE, OUTPUT_TYPES
from aml_emulator.domain.locations import ARTIFACT_OUTPUTS, AssetId, parse_location
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.launch import PYTHON_FOLDER
from aml_emulator.executor.spec import Folder
from aml_emulator.schema import BodyError, check

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
        name: _sweep_distribution(node, name, given or {})
        for name, given in (fields.get("search_space") or {}).items()
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


def _sweep_distribution(node: str, name: str, given: Mapping[str, Any]) -> list[Any]:
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


_MODES: Final = {
    "mount": "ReadOnlyMount",
    "ro_mount": "ReadOnlyMount",
    "rw_mount": "ReadWriteMount",
    "download": "Download",
    "upload": "Upload",
    "direct": "Direct",
    "eval_mount": "EvalMount",
    "eval_download": "EvalDownload",
}
_IDENTITIES: Final = {"user_identity": "UserIdentity", "managed": "Managed", "aml_token": "AMLToken"}
_DISTRIBUTIONS: Final = {"pytorch": "PyTorch", "mpi": "Mpi", "tensorflow": "TensorFlow", "ray": "Ray"}
_SWEEP_SETTINGS: Final = ("early_termination", "limits", "objective", "sampling_algorithm", "search_space")
_COMPARED: Final = (
    "command",
    "codeId",
    "environmentId",
    "environmentVariables",
    "distribution",
    "resources",
    "inputs",
)
_COMPARED_OF_SWEEPS: Final = (
    "earlyTermination",
    "inputs",
    "limits",
    "objective",
    "resources",
    "samplingAlgorithm",
    "searchSpace",
    "trial",
)
_PATHS: Final = (*OUTPUT_TYPES, "path")
_BOUND: Final = ("distribution", "limits", "resources")
_FOLDERS: Final = tuple(one for one in OUTPUT_TYPES if one != "uri_file")


@dataclass(frozen=True, kw_only=True)
class Component:
    """A version of a component.

    Attributes:
        spec: its ``componentSpec``.
    """

    spec: Mapping[str, Any]

    @property
    def is_deterministic(self) -> bool:
        """Whether an earlier run with the same inputs may take the place of a new one."""
        return str(self.spec.get("is_deterministic", True)).lower() == "true"

    @property
    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """The declared inputs; those of groups by their names with a point."""
        return _flat(self.spec.get("inputs") or {})

    @property
    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """The declared outputs."""
        return {name: value or {} for name, value in (self.spec.get("outputs") or {}).items()}


def _flat(inputs: Mapping[str, Any], prefix: str = "") -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name, value in inputs.items():
        if isinstance(value, Mapping) and value.get("type") == "group":
            found |= _flat(value.get("values") or {}, f"{prefix}{name}.")
        else:
            found[prefix + name] = value if isinstance(value, Mapping) else {}
    return found


def component_of(workspace: Workspace, node: Node) -> Component:
    """Return the component of a node.

    Raises:
        NotFoundError: there is none of that id.
        NotSupportedError: it is of another type than its node.
        InvalidError: a field of it has another type than components have.
    """
    location = parse_location(node.component_id, what=f"The component of the node '{node.name}'")
    version = None
    if isinstance(location, AssetId) and location.kind in ("", "components"):
        version = workspace.asset_version(location, "components")
    if version is None:
        raise NotFoundError(f"the component of the node '{node.name}': {node.component_id or 'none is named'}")
    spec = version.properties.get("componentSpec") or {}
    kind = str(spec.get("type") or "command").lower()
    kind = {f"{one}component": one for one in (COMMAND, PARALLEL, PIPELINE)}.get(kind, kind)
    if kind != (COMMAND if node.kind == SWEEP else node.kind):
        raise NotSupportedError(f"the node '{node.name}': its component is of type '{kind}'")
    try:
        check(COMPONENT_SHAPE, spec)
    except BodyError as error:
        raise InvalidError(f"The component of the node '{node.name}': {error}") from error
    return Component(spec=spec)


def whole_pipeline(workspace: Workspace, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pipeline job with what its component gives, if it is made of one.

    azure-ai-ml 1.35 sends ``componentId``, and nodes only if it has them (``entities/_job/pipeline/pipeline_job.py``).

    Raises:
        NotFoundError: there is no such component.
        NotSupportedError: it is no pipeline.
        InvalidError: its form is wrong.
    """
    if not job.get("componentId"):
        return dict(job)
    node = Node(
        name=str(job.get("displayName") or "the job itself"),
        kind=PIPELINE,
        component_id=str(job["componentId"]),
        fields={},
        inputs={},
        outputs={},
        promoted={},
    )
    component = component_of(workspace, node)
    defaults = {
        name: {"jobInputType": "literal", "value": str(declared["default"])}
        for name, declared in component.inputs.items()
        if declared.get("default") is not None
    }
    unset = {name: None for name, declared in component.inputs.items() if _is_optional(declared)}
    places = {name: {"jobOutputType": declared.get("type")} for name, declared in component.outputs.items()}
    return {
        **job,
        "jobs": job.get("jobs") or component.spec.get("jobs") or {},
        "inputs": {**unset, **defaults, **(job.get("inputs") or {})},
        "outputs": {**places, **{name: one for name, one in (job.get("outputs") or {}).items() if one}},
        "settings": {**(component.spec.get("settings") or {}), **(job.get("settings") or {})},
    }


def _is_optional(declared: Mapping[str, Any]) -> bool:
    return str(declared.get("optional")).lower() == "true"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """A pipeline, as its nodes see it.

    Attributes:
        name: the pipeline's, which is its run's id.
        job: the pipeline as it was submitted.
        outputs: the places of the outputs of nodes, as runs have them, by the nodes' names.
    """

    workspace: Workspace
    name: str
    job: Mapping[str, Any]
    outputs: Mapping[str, Mapping[str, Mapping[str, Any]]]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its settings, in snake case."""
        return self.job.get("settings") or {}


def node_job(scope: Scope, node: Node, component: Component) -> dict[str, Any]:
    """Return the properties of a node's job: of a command, a pipeline or a sweep.

    Raises:
        InvalidError: a required input has no value, or an unknown one has.
    """
    fields = node.fields
    job: dict[str, Any] = {
        "componentId": node.component_id,
        "displayName": fields.get("display_name") or node.name,
        "description": fields.get("description"),
        "tags": dict(fields.get("tags") or {}),
        "properties": dict(fields.get("properties") or {}),
        "experimentName": scope.job.get("experimentName"),
        "parentJobName": scope.name,
        "inputs": _inputs(scope, node, component),
        "outputs": _outputs(scope, node, component),
        "computeId": _bound(scope, fields.get("computeId"))
        or scope.settings.get("default_compute")
        or scope.job.get("computeId"),
    }
    if node.kind == PIPELINE:
        settings = {**scope.settings, **(component.spec.get("settings") or {}), **(fields.get("settings") or {})}
        return {**job, "jobType": "Pipeline", "jobs": component.spec.get("jobs") or {}, "settings": settings}
    if node.kind == PARALLEL:
        return {**job, "jobType": "Command", **_parallel(scope, node, component, job["inputs"])}
    command = _command(component.spec, {**fields, **{name: _resolved(scope, fields.get(name)) for name in _BOUND}})
    if node.kind == SWEEP:
        settings = {name: _resolved(scope, fields.get(name)) for name in _SWEEP_SETTINGS}
        return {**job, **sweep_properties(node.name, settings, command, inputs=component.inputs)}
    return {**job, "jobType": "Command", **command}


def _bound(scope: Scope, value: Any) -> Any:
    """Return a field of a node, or the pipeline's input that it is bound to."""
    name = bound_input(value)
    return value if name is None else ((scope.job.get("inputs") or {}).get(name) or {}).get("value")


def _resolved(scope: Scope, value: Any) -> Any:
    """Return a field of a node with the values of the pipeline's inputs in it; whole numbers of them as such."""
    if isinstance(value, Mapping):
        return {name: _resolved(scope, inner) for name, inner in value.items()}
    bound = _bound(scope, value)
    return int(bound) if bound != value and str(bound).isdecimal() else bound


def _filled(scope: Scope, text: str) -> str:
    """Return a text with the pipeline's name, and the values and addresses of its inputs, in place of their expressions."""

    def value(match: re.Match[str]) -> str:
        if match[1].strip() == PARENT_NAME:
            return scope.name
        name = bound_input(match[0])
        given = {} if name is None else (scope.job.get("inputs") or {}).get(name) or {}
        found = str(given["uri"]).rstrip("/") if given.get("uri") else given.get("value")
        return match[0] if found is None else str(found)

    return EXPRESSION.sub(value, text)


_INPUT_DATA: Final = re.compile(r"\s*\$\{\{\s*inputs\.([A-Za-z_]\w*)\s*\}\}\s*")


def _parallel(scope: Scope, node: Node, component: Component, inputs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of a command job that runs a parallel node's script over the mini-batches of its input.

    All its processes are in one container. The input is mounted whatever its mode: `aml_emulator.executor.parallel_run` divides it.

    Raises:
        InvalidError: the node has no script, or its ``input_data`` is none of its inputs.
    """
    given = {
        **component.spec,
        **{name: value for name, value in node.fields.items() if value not in (None, "", {}, [])},
    }
    task = {**(component.spec.get("task") or {}), **(node.fields.get("task") or {})}
    found = _INPUT_DATA.fullmatch(str(given.get("input_data") or ""))
    if found is None or found[1] not in inputs:
        raise InvalidError(f"The node '{node.name}': input_data names none of its inputs: {given.get('input_data')}")
    if not task.get("entry_script"):
        raise InvalidError(f"The node '{node.name}': its task has no entry_script.")
    data = inputs[found[1]]
    if data.get("mode") in ("Direct", "EvalMount", "EvalDownload"):
        inputs[found[1]] = {**data, "mode": "ReadOnlyMount"}
    nodes = int(_resolved(scope, (given.get("resources") or {}).get("instance_count")) or 1)
    each = _resolved(scope, given.get("max_concurrency_per_instance"))
    settings = {name: _resolved(scope, given.get(name)) for name in PARALLEL_SETTINGS if given.get(name) is not None}
    if isinstance(keys := settings.get("partition_keys"), str):
        try:
            settings["partition_keys"] = json.loads(keys)
        except ValueError as error:
            raise InvalidError(f"The node '{node.name}': partition_keys are no list: {keys}") from error
    settings["processes"] = nodes * int(each) if each else None
    encoded = base64.b64encode(json.dumps(settings).encode()).decode()
    script = " ".join(str(task.get(name) or "") for name in ("entry_script", "program_arguments"))
    data_path, target = f"${{{{inputs.{found[1]}}}}}", task.get("append_row_to") or "-"
    spec = {
        **given,
        **{name: task.get(name) for name in ("code", "environment")},
        "command": f"python {PYTHON_FOLDER}/aml_parallel_run.py {data_path} {target} {encoded} {script}",
        "resources": {name: one for name, one in (given.get("resources") or {}).items() if name != "instance_count"},
    }
    return _command(spec, {"environment_variables": node.fields.get("environment_variables")})


def _command(spec: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a command job that a component and its node give."""
    resources = {**(spec.get("resources") or {}), **(fields.get("resources") or {})}
    limits = {**(spec.get("limits") or {}), **(fields.get("limits") or {})}
    found: dict[str, Any] = {
        "command": spec.get("command"),
        "codeId": _id(spec.get("code")),
        "environmentId": _id(fields.get("environment") or spec.get("environment")),
        "environmentVariables": {
            **(spec.get("environment_variables") or {}),
            **(fields.get("environment_variables") or {}),
        },
        "resources": {_camel(name): value for name, value in resources.items() if value is not None},
        "distribution": _distribution(fields.get("distribution") or spec.get("distribution") or {}),
        "limits": {"jobLimitsType": "Command", "timeout": limits.get("timeout")} if limits.get("timeout") else None,
        "identity": _identity(fields.get("identity") or {}),
        "queueSettings": _queue(fields.get("queue_settings") or {}),
        "services": {
            name: {"jobServiceType": (given or {}).get("job_service_type")}
            for name, given in (fields.get("services") or {}).items()
        },
    }
    return {name: value for name, value in found.items() if value not in (None, {}, "")}


def _id(value: Any) -> str | None:
    """Return the id of an environment or of code, without components' prefix.

    An address stays as it is.
    """
    text = str(value or "")
    return text.removeprefix("azureml:") if text.startswith("azureml:/subscriptions/") else text or None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _distribution(given: Mapping[str, Any]) -> dict[str, Any] | None:
    if not given:
        return None
    kind = str(given.get("distribution_type") or given.get("type") or "")
    rest = {_camel(name): value for name, value in given.items() if name not in ("distribution_type", "type")}
    return {"distributionType": _DISTRIBUTIONS.get(kind.lower(), kind), **rest}


def _queue(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a node's queue.

    Nodes have the YAML's words, jobs have numbers and capitals.
    """
    found = {_camel(name): value for name, value in given.items() if value is not None}
    if isinstance(found.get("jobTier"), str):
        found["jobTier"] = found["jobTier"].capitalize()
    words = {word: number for number, word in PRIORITIES.items()}
    if "priority" in found:
        found["priority"] = words.get(str(found["priority"]).lower(), found["priority"])
    return found


def _identity(given: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = str(given.get("identity_type") or given.get("type") or "")
    return {"identityType": _IDENTITIES.get(kind.lower(), kind)} if kind else None


def _mode(*modes: Any) -> str | None:
    """Return the first mode that is given, in the words of jobs."""
    chosen = next((str(mode) for mode in modes if mode), None)
    return None if chosen is None else _MODES.get(chosen.lower(), chosen)


def _inputs(scope: Scope, node: Node, component: Component) -> dict[str, Any]:
    declared = component.inputs
    unknown = sorted(node.inputs.keys() - declared.keys())
    if unknown:
        raise InvalidError(f"The node '{node.name}': its component has no input {', '.join(unknown)}.")
    sampled = node.fields.get("search_space") or {}
    found: dict[str, Any] = {}
    for name, declaration in declared.items():
        if name in sampled:
            continue
        source = node.inputs.get(name)
        value = None if source is None else _value(scope, source, declaration)
        if value is None and declaration.get("default") is not None:
            value = {"jobInputType": "literal", "value": str(declaration["default"])}
        if value is not None:
            found[name] = value
        elif not _is_optional(declaration):
            raise InvalidError(f"The node '{node.name}': its required input '{name}' has no value.")
    return found


def _value(scope: Scope, source: Source, declaration: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an input of a node's job; None for one without a value."""
    if source.node is not None:
        return _output_as_input(scope, source, declaration)
    given: Mapping[str, Any] = source.given
    if source.name:
        given = _snake((scope.job.get("inputs") or {}).get(source.name) or {})
    elif (text := _filled(scope, text_of(given))) != text_of(given):
        path = str(declaration.get("type")).lower() in _PATHS
        given = {"job_input_type": declaration["type"], "uri": text} if path else {"value": text}
    kind = str(given.get("job_input_type") or ("literal" if "value" in given else "")).lower()
    if kind == "literal" or not given.get("uri"):
        return None if given.get("value") is None else {"jobInputType": "literal", "value": str(given["value"])}
    mode = _mode(source.mode, declaration.get("mode"), given.get("mode"))
    return {"jobInputType": kind, "uri": given["uri"], **({"mode": mode} if mode else {})}


def _snake(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"job_input_type" if name == "jobInputType" else name: value for name, value in given.items()}


def _output_as_input(scope: Scope, source: Source, declaration: Mapping[str, Any]) -> dict[str, Any]:
    place = scope.outputs[str(source.node)].get(source.name)
    if place is None:
        raise InvalidError(f"The node '{source.node}' has no output '{source.name}'.")
    kind = str(place["kind"])
    uri = scope.workspace.address(Folder(container=place["container"], prefix=place["prefix"]))
    mode = _mode(source.mode, declaration.get("mode"))
    slash = "/" if kind in _FOLDERS and not uri.endswith("/") else ""
    return {"jobInputType": kind, "uri": uri + slash, **({"mode": mode} if mode else {})}


def _outputs(scope: Scope, node: Node, component: Component) -> dict[str, Any]:
    declared = component.outputs
    unknown = sorted(node.outputs.keys() - declared.keys())
    if unknown:
        raise InvalidError(f"The node '{node.name}': its component has no output {', '.join(unknown)}.")
    found: dict[str, Any] = {}
    for name, declaration in declared.items():
        if name in ARTIFACT_OUTPUTS:
            # The files that the run captures: every job has this output.
            continue
        own = node.outputs.get(name) or {}
        promoted = (scope.job.get("outputs") or {}).get(node.promoted.get(name, ""), None) or {}
        output = {
            "jobOutputType": declaration.get("type") or "uri_folder",
            "mode": _mode(own.get("mode"), promoted.get("mode"), declaration.get("mode")),
            "uri": own.get("uri") or promoted.get("uri"),
            **_registered(own, promoted),
        }
        found[name] = {key: value for key, value in output.items() if value is not None}
    return found


def _registered(own: Mapping[str, Any], promoted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the asset of an output: the node's, else that of the pipeline's output.

    azure-ai-ml 1.35 sends ``name`` and ``version`` for a node's (``entities/_builders/base_node.py``, ``_to_rest_outputs``).
    """
    for name, version in (("name", "version"), ("asset_name", "asset_version")):
        if own.get(name):
            return {"assetName": own[name], "assetVersion": own.get(version)}
    return {"assetName": promoted.get("assetName"), "assetVersion": promoted.get("assetVersion")}


def reuse_key(component: Component, job: Mapping[str, Any]) -> str | None:
    """Return what makes a run replaceable by an earlier one; None if it never is.

    Azure compares the component and the inputs (https://learn.microsoft.com/azure/machine-learning/how-to-debug-pipeline-reuse-issues).
    """
    if not component.is_deterministic:
        return None
    compared = _COMPARED_OF_SWEEPS if job.get("jobType") == "Sweep" else _COMPARED
    essence = {name: job.get(name) for name in compared}
    essence["outputs"] = {
        name: {key: value.get(key) for key in ("jobOutputType", "uri")} for name, value in job["outputs"].items()
    }
    return sha256(json.dumps(essence, sort_keys=True, default=str).encode()).hexdigest()
