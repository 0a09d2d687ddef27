"""``gate:`` and ``baseline:``: rules for metrics, and what they compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from aml_train.config.section import CheckedTree, inside, key, make, record, section
from aml_train.config.yaml.nodes import Faults, ListNode, MapNode, Node, ScalarNode, find, join
from aml_train.config.yaml.shapes import Choice, Flag, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table
from aml_train.gate.rules import DataPolicy, Policies, Rule, parse_rule

_RULE: Final = Text(noun="a rule such as '>= 0.95' or 'min < 0.2'", rule=parse_rule, remedy="write such as '>= 0.95'")
_POLICY: Final = Choice(words=("fail", "warn", "skip"))
_POLICIES: Final = {
    "severity": Key(Choice(words=("fail", "warn")), "Effect of a missed rule: `fail` (the default), or `warn`."),
    "missing": Key(_POLICY, "Effect of a missing metric: `fail` (the default), `warn` or `skip`."),
    "no-baseline": Key(_POLICY, "Effect of a missing baseline: `fail` (the default), `warn` or `skip`."),
}
_ONE: Final = Either(
    noun="a rule such as '>= 0.95', or a mapping with `rule`",
    scalar=_RULE,
    keys=Record(noun="a mapping with `rule`", keys={"rule": Key(_RULE, "The rule.", required=True), **_POLICIES}),
)
_SOME: Final = Items(item=_ONE, noun="a list of rules", least=1)

GATE: Final = Table(
    noun="a mapping of metrics to rules",
    value=Either(
        noun="a rule such as '>= 0.95', a list of rules, or a mapping with `rules`",
        scalar=_RULE,
        items=_SOME,
        keys=Record(
            noun="a mapping with `rules`",
            keys={
                "rules": Key(
                    Either(noun="a rule, or a list of rules", scalar=_RULE, items=_SOME), "The rules.", required=True
                ),
                "file": Key(
                    Text(noun="a path among the job's artefacts, such as `outputs/report.json`", rule=inside),
                    "JSON file among the job's artefacts that has the value, instead of a metric that the job logs.",
                ),
                "pointer": Key(
                    Text(noun="a JSON Pointer, such as `/macro avg/f1-score`", pattern="/.*", remedy="see RFC 6901"),
                    "Place of the number in `file`, as a JSON Pointer; `/NAME` with the metric's name by default.",
                ),
                **_POLICIES,
            },
        ),
    ),
    key=Text(noun="a metric's name"),
    least=1,
)


@dataclass(frozen=True, kw_only=True)
class JsonValue:
    """A number in a JSON file among the job's artefacts.

    *file* is its path, *pointer* the JSON Pointer (RFC 6901) in it.
    """

    file: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class GateRule:
    """One rule of ``gate:`` with its metric, its policies and its place.

    *where* is ``file:line``; *source* is the value's place if a file of the job holds it; None for a logged metric.
    """

    metric: str
    rule: Rule
    where: str
    policies: Policies = field(default_factory=Policies)
    source: JsonValue | None = None


@section
class BaselineConfig:
    """``baseline:``. Exactly one of *file*, *job*, *model* and *branch* is given.

    *where* is ``file:line``.
    """

    file: Path | None = key(
        Text(noun="the path of a JSON file"), "JSON file of the project: metric → number.", default=None
    )
    job: str | None = key(Text(noun="a job's name"), "Job of the workspace, by its name.", default=None)
    model: str | None = key(
        Text(noun="a model's name"),
        "Registered model: its newest version that `stage`, `tag` or `version` names.",
        default=None,
    )
    stage: str | None = key(
        Text(noun="a stage such as `production`"), "Stage that the model's version is in.", default=None
    )
    tag: str | None = key(
        Text(noun="a tag, `name` or `name=value`"), "Tag that the model's version has.", default=None
    )
    version: str | None = key(Text(noun="a version"), "Version of the model.", default=None)
    branch: str | None = key(
        Text(noun="a branch's name, such as `main`"),
        "Branch of this repository: the latest run of this configuration on it that passed.",
        default=None,
    )
    proof: Literal["recomputed", "recorded"] = key(
        Choice(words=("recomputed", "recorded")),
        "What a verdict of `branch` rests on: `recomputed` from git, registry and metrics (the default), or `recorded`: whoever"
        " may write tags of jobs decides.",
        default="recomputed",
    )
    data: DataPolicy = key(
        Choice(words=("warn", "fail", "ignore")),
        "Effect on the gate if the job has read other data than the baseline: `warn` (the default), `fail` or `ignore`.",
        default="warn",
    )
    bootstrap: bool = key(
        Flag(),
        "Whether rules that need the baseline are skipped if there is none yet; false by default.",
        default=False,
    )
    where: str = ""


BASELINE: Final = record(
    BaselineConfig,
    noun="a mapping with `file`, `job`, `model` or `branch`",
    one_of=("file", "job", "model", "branch"),
)


def check_gate(tree: MapNode, faults: Faults, name: str = "gate") -> None:
    """Check that each ``pointer`` of the ``gate`` in *tree* has a ``file``.

    *name* is the gate's name in faults.
    """
    table = find(tree, "gate")
    for metric, entry in table.entries.items() if isinstance(table, MapNode) else ():
        node = entry.node
        if isinstance(node, MapNode) and "pointer" in node.entries and "file" not in node.entries:
            what = f"`{join(name, metric)}.pointer` goes with `file` only"
            faults.add(node.entries["pointer"].mark, what, remedy="give the `file`")


def gate_rules(tree: MapNode) -> tuple[GateRule, ...]:
    """Make the rules of the checked ``gate`` in *tree*, in the order of the file."""
    table = find(tree, "gate")
    if not isinstance(table, MapNode):
        return ()
    return tuple(rule for metric, entry in table.entries.items() for rule in _rules(metric, entry.node, {}))


def _rules(
    metric: str, node: Node, policies: Mapping[str, Any], source: JsonValue | None = None
) -> Iterator[GateRule]:
    if isinstance(node, ScalarNode):
        rule, where = parse_rule(node.text), node.mark.where
        yield GateRule(metric=metric, rule=rule, where=where, policies=Policies(**policies), source=source)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _rules(metric, item, policies, source)
    else:
        own = {name: entry.node.text for name, entry in node.entries.items() if isinstance(entry.node, ScalarNode)}
        inner = find(node, "rules") or find(node, "rule")
        if "file" in own:
            escaped = metric.replace("~", "~0").replace("/", "~1")
            source = JsonValue(file=own["file"].strip("/"), pointer=own.get("pointer", f"/{escaped}"))
        if inner is not None:
            given = {name.replace("-", "_"): own[name] for name in _POLICIES if name in own}
            yield from _rules(metric, inner, {**policies, **given}, source)


def baseline_config(checked: CheckedTree, rules: tuple[GateRule, ...]) -> BaselineConfig | None:
    """Make ``baseline``; a rule that needs a baseline that is missing is a fault."""
    found = checked.values.get("baseline")
    if not isinstance(found, dict):
        needs = next((rule for rule in rules if rule.rule.needs_baseline), None)
        if needs is not None and not checked.has("baseline"):
            what = f"the rule `{needs.rule.text}` compares with a baseline, and there is no `baseline`"
            remedy = "add it: `baseline: {model: NAME, stage: production}`"
            checked.fault(what, "gate", needs.metric, remedy=remedy)
        return None
    selectors = [name for name in ("stage", "tag", "version") if checked.has("baseline", name)]
    if "model" in found and len(selectors) != 1:
        checked.fault(
            "`baseline.model` needs one of `stage`, `tag` and `version`",
            "baseline",
            why=f"{' and '.join(f'`{name}`' for name in selectors)} are given" if selectors else "none is given",
            remedy="write `baseline: {model: NAME, stage: production}`",
        )
    elif "model" not in found and selectors:
        what = f"`baseline.{selectors[0]}` goes with `model` only"
        checked.fault(what, "baseline", selectors[0], remedy="delete it")
    if "file" in found and "data" in found:
        why = "a file of metrics does not say which data they were measured on"
        checked.fault("`baseline.data` does not go with `file`", "baseline", "data", why=why, remedy="delete it")
    file = checked.directory / found["file"] if "file" in found else None
    return make(BaselineConfig, found, file=file, where=checked.place("baseline").where)
