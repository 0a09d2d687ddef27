"""``model:`` and ``promote:``: the registered model, and the rules of stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from aml_train.config.job.grammar import ASSET_NAME
from aml_train.config.job.model import Job
from aml_train.config.section import CheckedTree, inside, key, make, record, section
from aml_train.config.sections.gate import GATE, GateRule, check_gate, gate_rules
from aml_train.config.sections.passport import REQUIRE, Requirement
from aml_train.config.sections.targets import LOCAL, WORKSPACE, TargetConfig, configured_target
from aml_train.config.yaml.nodes import MapNode, ScalarNode, find, join, shown
from aml_train.config.yaml.shapes import Choice, Flag, Text, nearest
from aml_train.config.yaml.structures import Either, Items, Table
from aml_train.core.tags import check_author_tag
from aml_train.gate.rules import DataPolicy

ARCHIVED: Final = "archived"
"""The stage of models that were replaced; nothing is promoted to it."""


def stage_name(text: str) -> str:
    """Return a stage's name in lower case, as it is compared.

    Raises:
        ValueError: nothing is promoted to it.
    """
    if text.lower() == ARCHIVED:
        raise ValueError("a model is archived when another one takes its place; nothing is promoted to it")
    return text.lower()


def _first_stage(text: str) -> None:
    """Raise ValueError for a stage that no version begins in."""
    if text.lower() in ("production", ARCHIVED):
        raise ValueError(f"versions get to `{text}` by `aml-train promote`")


_STAGE: Final = Text(
    noun="a stage's name: letters, digits, `.`, `_` and `-`", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
)
_SOURCE: Final = replace(_STAGE, convert=str.lower)


@section
class ModelConfig:
    """``model:``. It is at *path* among the job's artefacts, or is an *output*."""

    name: str = key(Text(noun="letters, digits, `.`, `_` and `-`", pattern=ASSET_NAME), "Name of the model.")
    path: str | None = key(
        Text(noun="a path among the job's artefacts, such as `outputs/model`", rule=inside),
        "Path among the job's artefacts, such as `outputs/model`.",
        default=None,
    )
    output: str | None = key(
        Text(noun="the name of an output of the job"),
        "Name of one of the job's outputs, instead of `path`.",
        default=None,
    )
    node: str | None = key(
        Text(noun="a node's name"),
        "Node of a pipeline job whose path or output it is; by default `output` is one of the pipeline's own.",
        default=None,
    )
    type: Literal["custom_model", "mlflow_model", "triton_model"] = key(
        Choice(words=("custom_model", "mlflow_model", "triton_model")),
        "`custom_model` (the default), `mlflow_model` or `triton_model`.",
        default="custom_model",
    )
    stage: str | None = key(
        replace(_STAGE, rule=_first_stage),
        "Stage that a new version is registered in, such as `candidate`; none by default.",
        default=None,
    )
    description: str | None = key(Text(), "Free text.", default=None)
    tags: Mapping[str, str] = key(
        Table(value=Text(), noun="a mapping of text to text", key=Text(noun="a tag's name", rule=check_author_tag)),
        "Tags, in addition to those of aml-train.",
        factory=dict,
    )


MODEL: Final = record(ModelConfig, noun="a mapping with `name` and `path` or `output`", one_of=("path", "output"))


@section
class StagePlace:
    """``promote.STAGE.to``: where the stage is, if not in the workspace that trains.

    Attributes:
        workspace: the name of a target, or of a workspace in the same resource group.
        target: that target; None if ``targets`` has none of this name.
    """

    workspace: str = key(
        WORKSPACE,
        "Workspace that has the stage: one of `targets`, else a workspace of the same resource group; files, image and"
        " passport are copied to it.",
    )
    target: TargetConfig | None = None


@section
class StagePolicy:
    """One entry of ``promote:``: what a model must meet to get into a stage.

    Attributes:
        sources: the stages that it may come from, in lower case; none for any.
        branch: the branch whose runs count; None for the repository's default branch.
        rules: the gate; its baseline is the model that is in the stage.
        require: what the passport of the version must show; nothing to verify without any.
        bootstrap: whether rules that need a baseline are skipped while the stage is empty.
        data: what becomes of the gate if the model in the stage has read other data.
        where: ``file:line``; empty if the file has no entry for the stage.
    """

    sources: tuple[str, ...] = key(
        Either(
            noun="a stage, or a list of stages",
            scalar=_SOURCE,
            items=Items(item=_SOURCE, noun="a list of stages", least=1),
        ),
        "Stages that a model may come from; any by default.",
        default=(),
        name="from",
    )
    branch: str | None = key(
        Text(noun="a branch's name, such as `main`"),
        "Branch whose runs a model must come from; the repository's default branch by default.",
        default=None,
        name="from-branch",
    )
    rules: tuple[GateRule, ...] = key(
        GATE,
        "Rules for this stage, instead of those of a run; `baseline` is the model that is in the stage now.",
        default=(),
        name="gate",
    )
    require: tuple[Requirement, ...] = key(
        REQUIRE,
        "Requirements that the model's passport must meet: `signature`, `provenance`, `tests`; none by default.",
        default=(),
    )
    bootstrap: bool = key(
        Flag(),
        "Whether rules that need a baseline are skipped while the stage is empty; `baseline.bootstrap` by default.",
        default=False,
    )
    to: StagePlace | None = key(
        record(
            StagePlace,
            noun="a mapping with `workspace`",
            hints={
                "registry": "a registry of AzureML keeps no record to lock and to roll back by: name a `workspace`, and"
                " share its version with `az ml model share`"
            },
        ),
        "Another workspace that has the stage; the model's own by default.",
        default=None,
    )
    data: DataPolicy = "warn"
    where: str = ""


PROMOTE: Final = Table(
    noun="a mapping of stages to what a model must meet there",
    key=replace(_STAGE, rule=stage_name, remedy="write such as `production`"),
    value=Either(noun="a mapping, or nothing", nothing=True, keys=record(StagePolicy, noun="a mapping")),
)


@dataclass(frozen=True, kw_only=True)
class StagePolicies:
    """What a model must meet to get into each stage.

    Attributes:
        named: ``promote``, by the stages' names in lower case.
        otherwise: what a model must meet in any other stage: the run's gate.
    """

    named: Mapping[str, StagePolicy] = field(default_factory=dict)
    otherwise: StagePolicy = field(default_factory=StagePolicy)

    def of(self, stage: str) -> StagePolicy:
        """Return what a model must meet in *stage*."""
        return self.named.get(stage.lower(), self.otherwise)


def model_config(checked: CheckedTree) -> ModelConfig | None:
    """Make ``model``; None if there is none."""
    found = checked.values.get("model")
    return make(ModelConfig, found) if isinstance(found, dict) else None


def check_output(checked: CheckedTree, job: Job | None) -> None:
    """Check that ``model.output`` is an output of the job or node, if known."""
    output = checked.section("model").get("output")
    if output is None:
        return
    if checked.values.get("sdk") == "v1":
        checked.fault(
            "`model.output` and `sdk: v1` exclude each other",
            "model",
            "output",
            why="runs of the SDK v1 have no outputs with names",
            remedy="write it into `./outputs` and name it by `model.path`, or write `sdk: v2`",
        )
    node = checked.section("model").get("node")
    declared = None if job is None else job.outputs_of(node)
    if declared is not None and output not in declared:
        near = nearest(output, declared)
        owner = "job" if node is None else f"node {node}"
        remedy = f"did you mean `{near}`?" if near else f"declare it under `outputs` of the {owner}"
        what, why = f"`model.output` names `{shown(output)}`", f"the {owner} has no such output"
        checked.faults.add(checked.mark("model", "output"), what, why=why, remedy=remedy)


def check_promote(checked: CheckedTree) -> None:
    """Check what concerns several keys of ``promote``."""
    stages = find(checked.tree, "promote")
    seen: dict[str, str] = {}
    for name, entry in stages.entries.items() if isinstance(stages, MapNode) else ():
        if (before := seen.setdefault(name.lower(), name)) != name:
            what = f"`{join('promote', name)}` is `{join('promote', before)}` again"
            checked.faults.add(entry.mark, what, why="stages are compared without regard to case")
        if isinstance(entry.node, MapNode):
            check_gate(entry.node, checked.faults, f"{join('promote', name)}.gate")
            over = () if checked.faults else (one for one in gate_rules(entry.node) if one.rule.over is not None)
            for one in over:
                what = f"the rule `{one.rule.text}` of a stage is over replicates ({one.where})"
                checked.faults.add(entry.mark, what, why="a promotion judges the one job that wrote the model")
        _check_place(checked, name)
    first = find(checked.tree, "model", "stage")
    if isinstance(first, ScalarNode) and first.text.lower() in seen:
        checked.faults.add(
            first.mark,
            f"`model.stage` is `{shown(first.text)}`",
            why="`promote` says what a version must meet to get there, and a run would put its model past that",
            remedy="register in another stage, such as `candidate`, and promote from there",
        )


def _check_place(checked: CheckedTree, name: str) -> None:
    """Check where a stage is, and that versions get to it from a stage that they can be in."""
    stages = checked.section("promote")
    policy = stages.get(name) or {}
    if (policy.get("to") or {}).get("workspace") == LOCAL:
        what, remedy = f"`{join('promote', name)}.to` is the local AzureML", "name a workspace of it, or one in Azure"
        checked.fault(what, "promote", name, "to", "workspace", remedy=remedy)
    sources = policy.get("from") or ()
    for source in [sources] if isinstance(sources, str) else sources:
        there: Mapping[str, object] = next(
            (one for other, one in stages.items() if other.lower() == source and one), {}
        )
        if "to" in there:
            checked.fault(
                f"`{join('promote', name)}.from` is `{shown(source)}`, which is a stage of another workspace",
                *("promote", name, "from"),
                why="a version is promoted from the workspace that trained it, to each other one",
                remedy="name a stage of this workspace, such as `candidate`",
            )


def stage_policies(checked: CheckedTree) -> StagePolicies:
    """Make ``promote``, whose defaults are the run's gate."""
    baseline = checked.section("baseline")
    default = StagePolicy(
        rules=gate_rules(checked.tree),
        bootstrap=baseline.get("bootstrap", StagePolicy.bootstrap),
        data=baseline.get("data", StagePolicy.data),
    )
    stages, found = find(checked.tree, "promote"), {}
    for name, entry in stages.entries.items() if isinstance(stages, MapNode) else ():
        given = checked.section("promote").get(name) or {}
        node = entry.node
        found[name.lower()] = make(
            StagePolicy,
            {"bootstrap": default.bootstrap, **given},
            rules=gate_rules(node) if isinstance(node, MapNode) and "gate" in given else default.rules,
            data=default.data,
            where=entry.mark.where,
            to=_place(checked, given.get("to")),
        )
    return StagePolicies(named=found, otherwise=default)


def _place(checked: CheckedTree, given: Mapping[str, str] | None) -> StagePlace | None:
    name = (given or {}).get("workspace")
    return None if name is None else StagePlace(workspace=name, target=configured_target(checked, name))
