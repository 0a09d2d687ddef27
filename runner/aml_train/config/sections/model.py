"""The grammar of ``promote:`` in aml-train.yml, and what is made of it. docs/promotion.md has the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aml_train.config.assemble import choose_target, model_config
from aml_train.config.model import StagePolicy, TargetConfig
from aml_train.config.sections.gate import GATE, check_gate, gate_rules
from aml_train.config.yaml.nodes import Faults, MapNode, ScalarNode, find, join, shown
from aml_train.config.yaml.shapes import Flag, Text
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table

#: Where a model that was replaced ends; nothing is promoted to it.
ARCHIVED: Final = "archived"


def stage_name(text: str) -> str:
    """Return the name of a stage as it is compared: in lower case.

    Raises:
        ValueError: models are put there, and not promoted to it.
    """
    if text.lower() == ARCHIVED:
        raise ValueError("a model is archived when another one takes its place; nothing is promoted to it")
    return text.lower()


STAGE: Final = Text(
    noun="a stage's name: letters, digits, `.`, `_` and `-`", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
)
_TARGET_STAGE: Final = replace(STAGE, rule=stage_name, remedy="write such as `production`")

PROMOTE: Final = Table(
    noun="a mapping of stages to what a model must meet there",
    key=_TARGET_STAGE,
    value=Either(
        noun="a mapping, or nothing",
        nothing=True,
        keys=Record(
            noun="a mapping",
            keys={
                "from": Key(
                    Either(
                        noun="a stage, or a list of stages",
                        scalar=STAGE,
                        items=Items(item=STAGE, noun="a list of stages", least=1),
                    ),
                    "Stages that a model may come from; any by default.",
                ),
                "gate": Key(
                    GATE,
                    "Rules for this stage, instead of those of a run; `baseline` is the model that is in the stage now.",
                ),
                "bootstrap": Key(
                    Flag(),
                    "Whether rules that need a baseline are skipped while the stage is empty; `baseline.bootstrap` by default.",
                ),
            },
        ),
    ),
)


def check_promote(tree: MapNode, faults: Faults) -> None:
    """Complain of keys of ``promote`` that do not go together."""
    stages = find(tree, "promote")
    entries = stages.entries if isinstance(stages, MapNode) else {}
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        if (before := seen.setdefault(name.lower(), name)) != name:
            why = "stages are compared without regard to case"
            faults.add(entry.mark, f"`{join('promote', name)}` is `{join('promote', before)}` again", why=why)
        if isinstance(entry.node, MapNode):
            check_gate(entry.node, faults, f"{join('promote', name)}.gate")
    first = find(tree, "model", "stage")
    if isinstance(first, ScalarNode) and first.text.lower() in seen:
        faults.add(
            first.mark,
            f"`model.stage` is `{shown(first.text)}`",
            why="`promote` says what a version must meet to get there, and a run would put its model past that",
            remedy="register in another stage, such as `candidate`, and promote from there",
        )


def stage_policies(tree: MapNode, values: Mapping[str, Any]) -> dict[str, StagePolicy]:
    """Make ``promote``, which has been checked, by the names of its stages in lower case."""
    stages = find(tree, "promote")
    if not isinstance(stages, MapNode):
        return {}
    run_rules = gate_rules(tree)
    baseline = values.get("baseline") or {}
    found: dict[str, StagePolicy] = {}
    for name, entry in stages.entries.items():
        given = (values.get("promote") or {}).get(name) or {}
        own = entry.node if isinstance(entry.node, MapNode) else MapNode(mark=entry.mark, entries={})
        sources = given.get("from", ())
        found[name.lower()] = StagePolicy(
            sources=tuple(one.lower() for one in ((sources,) if isinstance(sources, str) else sources)),
            rules=gate_rules(own) if "gate" in own.entries else run_rules,
            bootstrap=bool(given.get("bootstrap", baseline.get("bootstrap", False))),
            data=baseline.get("data", StagePolicy.data),
            where=entry.mark.where,
        )
    return found


@dataclass(frozen=True, kw_only=True)
class PromotionConfig:
    """What promoting needs of a configuration.

    Attributes:
        directory: the folder that the file stands in, absolute.
        target: the workspace.
        model: the name under ``model``; None where there is none.
        stages: ``promote``, by the stages' names in lower case.
        otherwise: what a model must meet in a stage that ``promote`` does not name: the run's gate.
    """

    directory: Path
    target: TargetConfig
    model: str | None = None
    stages: Mapping[str, StagePolicy] = field(default_factory=dict)
    otherwise: StagePolicy = field(default_factory=StagePolicy)

    def policy(self, stage: str) -> StagePolicy:
        """Return what a model must meet in *stage*: what is written for it, else the run's gate."""
        return self.stages.get(stage.lower(), self.otherwise)


def promotion_config(
    tree: MapNode, values: Mapping[str, Any], target: str | None, *, directory: Path, faults: Faults
) -> PromotionConfig | None:
    """Make it of checked values; None after a complaint."""
    chosen = choose_target(tree, values, target, directory=directory, faults=faults)
    check_gate(tree, faults)
    check_promote(tree, faults)
    if faults or chosen is None:
        return None
    model = model_config(values.get("model"))
    baseline = values.get("baseline") or {}
    return PromotionConfig(
        directory=directory,
        target=chosen,
        model=model.name if model is not None else None,
        stages=stage_policies(tree, values),
        otherwise=StagePolicy(
            rules=gate_rules(tree),
            bootstrap=bool(baseline.get("bootstrap", False)),
            data=baseline.get("data", StagePolicy.data),
        ),
    )
