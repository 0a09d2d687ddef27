"""The grammar of ``gate:`` and ``baseline:`` in aml-train.yml, and what is made of them. docs/gate.md has the same keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from aml_train.config.model import BaselineConfig, GateRule, JsonValue
from aml_train.config.sections.tests import inside
from aml_train.config.yaml.nodes import Faults, ListNode, MapNode, Node, ScalarNode, find, join, place
from aml_train.config.yaml.shapes import Choice, Flag, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table
from aml_train.gate import Policies, parse_rule

_RULE: Final = Text(noun="a rule such as '>= 0.95' or 'min < 0.2'", rule=parse_rule, remedy="write such as '>= 0.95'")
_POLICY: Final = Choice(words=("fail", "warn", "skip"))
_POLICIES: Final = {
    "severity": Key(Choice(words=("fail", "warn")), "What a missed rule does: `fail` (the default), or `warn`."),
    "missing": Key(
        _POLICY, "What becomes of a rule whose metric is missing: `fail` (the default), `warn` or `skip`."
    ),
    "no-baseline": Key(
        _POLICY, "What becomes of a rule whose baseline is missing: `fail` (the default), `warn` or `skip`."
    ),
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
                    "Where in `file` the number is, as a JSON Pointer; `/NAME` with the metric's name by default.",
                ),
                **_POLICIES,
            },
        ),
    ),
    key=Text(noun="a metric's name"),
    least=1,
)

BASELINE: Final = Record(
    noun="a mapping with `file`, `job`, `model` or `branch`",
    one_of=("file", "job", "model", "branch"),
    keys={
        "file": Key(Text(noun="the path of a JSON file"), "JSON file of the project: metric → number."),
        "job": Key(Text(noun="a job's name"), "Job of the workspace, by its name."),
        "model": Key(
            Text(noun="a model's name"),
            "Registered model: its newest version that `stage`, `tag` or `version` names.",
        ),
        "stage": Key(Text(noun="a stage such as `production`"), "Stage that the model's version is in."),
        "tag": Key(Text(noun="a tag, `name` or `name=value`"), "Tag that the model's version has."),
        "version": Key(Text(noun="a version"), "Version of the model."),
        "branch": Key(
            Text(noun="a branch's name, such as `main`"),
            "Branch of this repository: the latest run of this configuration on it that passed.",
        ),
        "data": Key(
            Choice(words=("warn", "fail", "ignore")),
            "What becomes of the gate where the job has read other data than the baseline: `warn` (the default), `fail` or `ignore`.",
        ),
        "bootstrap": Key(
            Flag(), "Whether rules that need the baseline are skipped where there is none yet; false by default."
        ),
    },
)


def check_gate(tree: MapNode, faults: Faults, name: str = "gate") -> None:
    """Complain of keys of ``gate`` that do not go together; *name* is what complaints call it."""
    table = find(tree, "gate")
    for metric, entry in table.entries.items() if isinstance(table, MapNode) else ():
        node = entry.node
        if isinstance(node, MapNode) and "pointer" in node.entries and "file" not in node.entries:
            faults.add(
                node.entries["pointer"].mark,
                f"`{join(name, metric)}.pointer` goes with `file` only",
                remedy="give the `file`",
            )


def gate_rules(tree: MapNode) -> tuple[GateRule, ...]:
    """Make the rules of ``gate``, which has been checked, in the order of the file."""
    table = find(tree, "gate")
    if not isinstance(table, MapNode):
        return ()
    return tuple(rule for metric, entry in table.entries.items() for rule in _rules(metric, entry.node, {}))


def _rules(
    metric: str, node: Node, policies: Mapping[str, str], source: JsonValue | None = None
) -> Iterator[GateRule]:
    if isinstance(node, ScalarNode):
        made = Policies(
            severity="warn" if policies.get("severity") == "warn" else "fail",
            missing=_policy(policies.get("missing")),
            no_baseline=_policy(policies.get("no-baseline")),
        )
        yield GateRule(metric=metric, rule=parse_rule(node.text), where=node.mark.where, policies=made, source=source)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _rules(metric, item, policies, source)
    else:
        own = {key: entry.node.text for key, entry in node.entries.items() if isinstance(entry.node, ScalarNode)}
        inner = find(node, "rules") or find(node, "rule")
        if "file" in own:
            escaped = metric.replace("~", "~0").replace("/", "~1")
            source = JsonValue(file=own["file"].strip("/"), pointer=own.get("pointer", f"/{escaped}"))
        if inner is not None:
            given = {**policies, **{key: own[key] for key in _POLICIES if key in own}}
            yield from _rules(metric, inner, given, source)


def _policy(word: str | None) -> Any:
    return word or "fail"


def baseline_config(
    tree: MapNode, found: Any, rules: tuple[GateRule, ...], directory: Path, faults: Faults
) -> BaselineConfig | None:
    """Make ``baseline``; complain where rules need one that is not there, or its keys do not go together."""
    needs = next((rule for rule in rules if rule.rule.needs_baseline), None)
    if not isinstance(found, dict):
        if needs is not None and "baseline" not in tree.entries:
            faults.add(
                place(tree, "gate", needs.metric),
                f"the rule `{needs.rule.text}` compares with a baseline, and there is no `baseline`",
                remedy="add it: `baseline: {model: NAME, stage: production}`",
            )
        return None
    selectors = [key for key in ("stage", "tag", "version") if key in found]
    if "model" in found and len(selectors) != 1:
        faults.add(
            place(tree, "baseline"),
            "`baseline.model` needs one of `stage`, `tag` and `version`",
            why=f"{' and '.join(f'`{key}`' for key in selectors)} are given" if selectors else "none is given",
            remedy="write `baseline: {model: NAME, stage: production}`",
        )
    elif "model" not in found and selectors:
        faults.add(
            place(tree, "baseline", selectors[0]),
            f"`baseline.{selectors[0]}` goes with `model` only",
            remedy="delete it",
        )
    file = found.get("file")
    if file is not None and "data" in found:
        faults.add(
            place(tree, "baseline", "data"),
            "`baseline.data` does not go with `file`",
            why="a file of metrics does not say which data they were measured on",
            remedy="delete it",
        )
    return BaselineConfig(
        file=directory / file if file is not None else None,
        job=found.get("job"),
        model=found.get("model"),
        stage=found.get("stage"),
        tag=found.get("tag"),
        version=found.get("version"),
        branch=found.get("branch"),
        data=found.get("data", "warn"),
        bootstrap=bool(found.get("bootstrap", False)),
        where=place(tree, "baseline").where,
    )
