"""The grammar of pipeline jobs, sweep jobs and components, AzureML CLI v2.

The facts are those of azure-ai-ml 1.35.1: ``_schema/pipeline`` for pipelines and their nodes, ``_schema/_sweep`` for
sweeps, ``_schema/component`` for components.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.job.grammar import INPUT, JOB, NAMES, OUTPUT, lower, snake
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, Node, ScalarNode, find
from aml_train.config.yaml.shapes import BAD, Anything, Choice, Flag, Literal, Number, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table, Variants

#: Kinds of nodes that are not checked here, and but for ``parallel`` not run by the local AzureML; ``unchecked: true`` passes them on.
OTHER_NODES: Final = (
    "parallel",
    "spark",
    "automl",
    "import",
    "data_transfer",
    "flow_parallel",
    "finetuning",
    "do_while",
    "if_else",
    "parallel_for",
)
BINDING: Final = re.compile(r"\$\{\{\s*parent\.([^}]*?)\s*\}\}")
"""A node's reference to its pipeline: ``${{parent.inputs.x}}``."""

#: Keys of a node whose shapes know references, or that have none.
_OWN_REFERENCES: Final = ("type", "component", "trial", "command", "inputs", "outputs")
_PRIMITIVES: Final = ("number", "integer", "boolean", "string")
_ASSETS: Final = ("uri_file", "uri_folder", "mltable", "custom_model", "mlflow_model", "triton_model", "path")
_MODES: Final = (
    "ro_mount",
    "rw_mount",
    "mount",
    "download",
    "upload",
    "direct",
    "eval_mount",
    "eval_download",
    "link",
)
#: A node's name is a Python name in lower case (``PipelineNodeNameStr``).
_NODE_NAME: Final = Text(
    noun="lower-case letters, digits and `_`",
    pattern=r"[a-z][a-z0-9_]*",
    remedy="start with a lower-case letter and use lower-case letters, digits and `_` only",
)
_TEXT: Final = Text()
_ANY_NUMBER: Final = Number(noun="a number", whole=False)
_BOUND: Final = Either(noun="a number", scalar=Literal(noun="a number"))


def _of_job(*names: str) -> dict[str, Key]:
    """Return keys that a command job has as well."""
    return {name: JOB.keys[name] for name in names}


def _optional(*names: str) -> dict[str, Key]:
    return {name: Key(key.shape, key.text) for name, key in _of_job(*names).items()}


_COMPONENT_INPUT: Final = Record(
    noun="an input",
    keys={
        "type": Key(Choice(words=(*_PRIMITIVES, *_ASSETS), fold=lower), "Type of the value.", required=True),
        "description": Key(_TEXT, "Free text."),
        "default": Key(Literal(), "Value of an input that is not given."),
        "optional": Key(Flag(words=True), "Whether it may be missing."),
        "min": Key(_BOUND, "Lowest value."),
        "max": Key(_BOUND, "Highest value."),
        "enum": Key(Items(item=Literal(), noun="a list of values"), "Possible values."),
        "mode": Key(Choice(words=_MODES, fold=lower), "How the job gets it."),
    },
)
_COMPONENT_OUTPUT: Final = Record(
    noun="an output",
    keys={
        "type": Key(Choice(words=(*_ASSETS, *_PRIMITIVES), fold=lower), "Type of what is written.", required=True),
        "description": Key(_TEXT, "Free text."),
        "mode": Key(Choice(words=_MODES, fold=lower), "How it gets there."),
        "is_control": Key(Flag(words=True), "Whether it controls other nodes."),
        "early_available": Key(Flag(words=True), "Whether others may read it before the node's end."),
    },
)
_COMPONENT_KEYS: Final = {
    "$schema": JOB.keys["$schema"],
    "name": Key(_TEXT, "Name of the component."),
    "version": Key(Anything(), "Version of the component."),
    "display_name": Key(_TEXT, "Name shown in the studio."),
    "description": Key(_TEXT, "Free text."),
    "tags": JOB.keys["tags"],
    "is_deterministic": Key(Flag(words=True), "Whether earlier outputs may be used again; `true` by default."),
    "inputs": Key(Table(value=_COMPONENT_INPUT, noun="a mapping of inputs", key=NAMES), "Inputs."),
    "outputs": Key(Table(value=_COMPONENT_OUTPUT, noun="a mapping of outputs", key=NAMES), "Outputs."),
}
COMMAND_COMPONENT: Final = Record(
    noun="a command component",
    ignored=("id", "creation_context", "latest_version", "intellectual_property"),
    keys={
        **_COMPONENT_KEYS,
        "type": Key(Choice(words=("command",), fold=lower), "`command`."),
        **_of_job("command", "code", "environment", "resources", "distribution"),
        "additional_includes": Key(
            Items(item=Text(noun="a path"), noun="a list of paths"), "More files for the code folder."
        ),
        "properties": Key(Anything(), "Properties."),
    },
)

_NODE_INPUTS: Final = Key(Table(value=INPUT, noun="a mapping of inputs", key=NAMES), "Values, data, references.")
_BOUND_OUTPUT: Final = Either(
    noun="a mapping with `type`, `${{parent.outputs.NAME}}`, or nothing",
    nothing=True,
    scalar=Text(noun="`${{parent.outputs.NAME}}`", pattern=r"\$\{\{\s*parent\.outputs\.[A-Za-z_]\w*\s*\}\}"),
    keys=OUTPUT.keys,
)
_NODE_OUTPUTS: Final = Key(Table(value=_BOUND_OUTPUT, noun="a mapping of outputs", key=NAMES), "Outputs.")
_OF_EVERY_NODE: Final = {
    "$schema": JOB.keys["$schema"],
    "inputs": _NODE_INPUTS,
    "outputs": _NODE_OUTPUTS,
    "comment": Key(_TEXT, "Free text."),
    "name": Key(_TEXT, "Not used: a node is named by its key."),
    **_of_job("display_name", "description", "properties", "tags"),
}
_COMPONENT: Final = Text(noun="the path of a component's YAML, or `azureml:NAME:VERSION`")
COMMAND_NODE: Final = Record(
    noun="a command node",
    one_of=("command", "component"),
    hints={"experiment_name": "it belongs to the pipeline", "jobs": "nodes within a node are a `pipeline` component"},
    keys={
        **_OF_EVERY_NODE,
        "type": Key(Choice(words=("command",), fold=lower), "`command`; may be left out."),
        **_optional("command", "code", "environment", "environment_variables"),
        "component": Key(
            Either(noun=_COMPONENT.noun, scalar=_COMPONENT, keys=COMMAND_COMPONENT),
            "Component: its YAML, `azureml:NAME:VERSION`, or one of a registry.",
        ),
        **_of_job("compute", "resources", "distribution", "limits", "queue_settings", "identity", "services"),
    },
)
PIPELINE_NODE: Final = Record(
    noun="a pipeline node",
    keys={
        **_OF_EVERY_NODE,
        "type": Key(Choice(words=("pipeline",), fold=lower), "`pipeline`."),
        "component": Key(_COMPONENT, "Pipeline component: its YAML, or `azureml:NAME:VERSION`.", required=True),
        "settings": Key(Anything(), "Settings of the nodes within."),
    },
)


_PARAMETERS: Final = {
    "values": Key(Items(item=Anything(), noun="a list of values", least=1), "Possible values.", required=True),
    "upper": Key(Number(noun="a whole number", minimum=1), "First value that is too high.", required=True),
    "min_value": Key(_ANY_NUMBER, "Lowest value.", required=True),
    "max_value": Key(_ANY_NUMBER, "Highest value.", required=True),
    "mu": Key(_ANY_NUMBER, "Mean.", required=True),
    "sigma": Key(_ANY_NUMBER, "Standard deviation.", required=True),
    "q": Key(_ANY_NUMBER, "Step of the values.", required=True),
}


def _distribution(*names: str) -> Record:
    """Return the record of a distribution with parameters of these names."""
    kind = Key(_TEXT, "The distribution.", required=True)
    return Record(noun="a distribution", keys={"type": kind, **{name: _PARAMETERS[name] for name in names}})


SEARCH_SPACE: Final = Table(
    noun="a mapping of hyperparameters to distributions",
    least=1,
    key=NAMES,
    value=Variants(
        noun="a mapping with `type`",
        fold=lower,
        records={
            "choice": _distribution("values"),
            "randint": _distribution("upper"),
            **{name: _distribution("min_value", "max_value") for name in ("uniform", "loguniform")},
            **{name: _distribution("min_value", "max_value", "q") for name in ("quniform", "qloguniform")},
            **{name: _distribution("mu", "sigma") for name in ("normal", "lognormal")},
            **{name: _distribution("mu", "sigma", "q") for name in ("qnormal", "qlognormal")},
        },
    ),
)
_ALGORITHMS: Final = ("random", "grid", "bayesian")


SAMPLING: Final = Either(
    noun="`random`, `grid`, `bayesian`, or a mapping with `type`",
    scalar=Choice(words=_ALGORITHMS, fold=lower),
    keys=Record(
        noun="a mapping with `type`",
        keys={
            "type": Key(Choice(words=_ALGORITHMS, fold=lower), "`random`, `grid` or `bayesian`.", required=True),
            "seed": Key(Number(noun="a whole number"), "Makes the same trials again."),
            "rule": Key(Choice(words=("random", "sobol"), fold=lower), "`random` or `sobol`."),
            "logbase": Key(Literal(), "Base of logarithmic distributions."),
        },
    ),
)
_POLICIES: Final = ("bandit", "median_stopping", "truncation_selection")
_COUNT: Final = Number(noun="a whole number of values", minimum=0)
_SHARE: Final = Number(noun="a whole number", minimum=1, maximum=99)
EARLY_TERMINATION: Final = Record(
    noun="a mapping with `type`",
    keys={
        "type": Key(
            Choice(words=_POLICIES, fold=snake), f"{', '.join(f'`{one}`' for one in _POLICIES)}.", required=True
        ),
        "evaluation_interval": Key(_COUNT, "Values between two decisions."),
        "delay_evaluation": Key(_COUNT, "Values before the first decision."),
        "slack_factor": Key(_ANY_NUMBER, "Allowed ratio to the best trial."),
        "slack_amount": Key(_ANY_NUMBER, "Allowed difference from the best trial."),
        "truncation_percentage": Key(_SHARE, "Share of trials that are ended."),
    },
)


def _seconds(text: str) -> Key:
    return Key(Number(noun="a time in whole seconds", minimum=1, digits=True), text)


_TRIALS: Final = Number(noun="a whole number of trials", minimum=1, maximum=1000, digits=True)
_OF_A_SWEEP: Final = {
    "search_space": Key(SEARCH_SPACE, "Hyperparameters and their distributions.", required=True),
    "sampling_algorithm": Key(SAMPLING, "How values are chosen: `random`, `grid` or `bayesian`.", required=True),
    "objective": Key(
        Record(
            noun="an objective",
            keys={
                "goal": Key(Choice(words=("minimize", "maximize"), fold=lower), "Direction.", required=True),
                "primary_metric": Key(Text(noun="a metric's name"), "Metric that decides.", required=True),
            },
        ),
        "Metric that decides, and its direction.",
        required=True,
    ),
    "early_termination": Key(EARLY_TERMINATION, "When a trial is ended early."),
    "limits": Key(
        Record(
            noun="limits",
            keys={
                "max_total_trials": Key(_TRIALS, "Most trials.", required=True),
                "max_concurrent_trials": Key(_TRIALS, "Most trials at a time."),
                "timeout": _seconds("Seconds after which the sweep is cancelled."),
                "trial_timeout": _seconds("Seconds after which a trial is cancelled."),
            },
        ),
        "Bounds of the sweep.",
        required=True,
    ),
    **_of_job("compute", "resources", "queue_settings", "identity"),
}
SWEEP_NODE: Final = Record(
    noun="a sweep node",
    keys={
        **_OF_EVERY_NODE,
        "type": Key(Choice(words=("sweep",), fold=lower), "`sweep`.", required=True),
        "trial": Key(
            Either(noun=_COMPONENT.noun, scalar=_COMPONENT, keys=COMMAND_COMPONENT),
            "The trials' component.",
            required=True,
        ),
        **_OF_A_SWEEP,
    },
)
_OF_EVERY_JOB: Final = (
    "$schema",
    "name",
    "display_name",
    "experiment_name",
    "description",
    "tags",
    "properties",
    "identity",
    "parent_job_name",
)
TRIAL: Final = Record(
    noun="a trial",
    hints={"inputs": "write them in the sweep itself", "outputs": "write them in the sweep itself"},
    keys=_of_job(
        "command", "code", "environment", "environment_variables", "resources", "distribution", "queue_settings"
    ),
)
SWEEP: Final = Record(
    noun="a sweep job",
    ignored=JOB.ignored,
    hints={"command": "write it in `trial`", "environment": "write it in `trial`", "code": "write it in `trial`"},
    keys={
        **_of_job(*_OF_EVERY_JOB, "inputs"),
        "outputs": Key(Table(value=OUTPUT, noun="a mapping of outputs", key=NAMES), JOB.keys["outputs"].text),
        "type": Key(Choice(words=("sweep",), fold=lower), "`sweep`.", required=True),
        "trial": Key(TRIAL, "Command of each trial.", required=True),
        **_OF_A_SWEEP,
    },
)


def _nodes(unchecked: bool) -> Table:
    """Return the shape of ``jobs``: a mapping of nodes. *unchecked* lets other kinds pass."""
    return Table(value=_Node(unchecked=unchecked), noun="a mapping of nodes", key=_NODE_NAME, least=1)


@dataclass(frozen=True, kw_only=True)
class _Node:
    """A node: a command, a sweep, or a pipeline component."""

    unchecked: bool
    noun: str = "a node"

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        kind = find(node, "type")
        if isinstance(kind, ScalarNode) and (word := lower(kind.text)) in OTHER_NODES:
            if self.unchecked:
                return Anything().check(node, name, faults)
            what = f"`{name}` is a node of type `{word}`"
            why = "aml-train checks and follows nodes of type `command`, `sweep` and `pipeline`"
            remedy = "write `unchecked: true` in aml-train.yml to pass such nodes on as they are"
            faults.add(kind.mark, what, why=why, remedy=remedy)
            return BAD
        if not isinstance(node, MapNode):
            return _NODE.check(node, name, faults)
        # azure-ai-ml takes a reference to the pipeline in place of nearly any value
        # (``support_data_binding_expression_for_fields``): such values are put back after the check.
        rest, references = _without_references(node)
        document = _NODE.check(rest, name, faults)
        if isinstance(document, dict):
            for keys, text in references:
                _put(document, keys, text)
        return document

    def schema(self) -> dict[str, Any]:
        return {} if self.unchecked else _NODE.schema()


def _without_references(
    node: MapNode, keys: tuple[str, ...] = ()
) -> tuple[MapNode, list[tuple[tuple[str, ...], str]]]:
    """Return a node without settings that are references, and those by their keys."""
    kept: dict[str, Entry] = {}
    references: list[tuple[tuple[str, ...], str]] = []
    for key, entry in node.entries.items():
        value = entry.node
        if not keys and key in _OWN_REFERENCES:
            kept[key] = entry
        elif isinstance(value, ScalarNode) and value.kind == "text" and BINDING.fullmatch(value.text.strip()):
            references.append(((*keys, key), value.text))
        elif isinstance(value, MapNode):
            rest, below = _without_references(value, (*keys, key))
            references += below
            kept[key] = Entry(mark=entry.mark, node=rest)
        else:
            kept[key] = entry
    apart = frozenset(key for key in node.entries if key not in kept)
    return MapNode(mark=node.mark, entries=kept, apart=apart), references


def _put(document: dict[str, Any], keys: tuple[str, ...], value: str) -> None:
    for key in keys[:-1]:
        document = document.setdefault(key, {})
    document[keys[-1]] = value


_NODE: Final = Variants(
    noun="a node",
    fold=lower,
    untyped=COMMAND_NODE,
    records={"command": COMMAND_NODE, "sweep": SWEEP_NODE, "pipeline": PIPELINE_NODE},
)
SETTINGS: Final = Record(
    noun="settings",
    lenient=True,
    keys={
        "default_compute": Key(Text(noun="a compute's name"), "Compute of nodes that name none."),
        "default_datastore": Key(Text(noun="a datastore's name"), "Datastore of outputs that name none."),
        "continue_on_step_failure": Key(
            Flag(words=True), "Whether nodes that need no failed one continue; `true` by default."
        ),
        "force_rerun": Key(Flag(words=True), "Whether no node is reused."),
        "on_init": Key(_NODE_NAME, "Node that runs before all others."),
        "on_finalize": Key(_NODE_NAME, "Node that runs after all others."),
    },
)
_PIPELINE_OUTPUTS: Final = Key(
    Table(value=OUTPUT, noun="a mapping of outputs", key=NAMES), "Outputs of nodes that are the pipeline's."
)


def pipeline(*, unchecked: bool = False) -> Record:
    """Return the grammar of a pipeline job; *unchecked* lets other nodes pass."""
    return Record(
        noun="a pipeline job",
        one_of=("jobs", "component"),
        ignored=JOB.ignored,
        hints={"command": "write it in a node below `jobs`", "environment": "write it in a node below `jobs`"},
        keys={
            **_of_job(*_OF_EVERY_JOB, "inputs", "compute"),
            "type": Key(Choice(words=("pipeline",), fold=lower), "`pipeline`.", required=True),
            "outputs": _PIPELINE_OUTPUTS,
            "settings": Key(SETTINGS, "Settings of all nodes."),
            "jobs": Key(_nodes(unchecked), "Nodes, by name."),
            "component": Key(_COMPONENT, "Pipeline component instead of `jobs`: its YAML."),
        },
    )


def pipeline_component(*, unchecked: bool = False) -> Record:
    """Return the grammar of a pipeline component."""
    return Record(
        noun="a pipeline component",
        ignored=COMMAND_COMPONENT.ignored,
        keys={
            **_COMPONENT_KEYS,
            "type": Key(Choice(words=("pipeline",), fold=lower), "`pipeline`."),
            "jobs": Key(_nodes(unchecked), "Nodes, by name.", required=True),
            "settings": Key(Anything(), "Settings of the nodes."),
        },
    )
