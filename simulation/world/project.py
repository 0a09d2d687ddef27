"""Projects of users, made of values that the oracle reads as well."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from simulation.world.git import CheckedOut

if TYPE_CHECKING:
    from simulation.world.world import World

REPOSITORY: Final = "https://github.com/acme/digits.git"
MODEL: Final = "digits"
Aggregate = Literal["last", "min", "max"]
Operator = Literal[">=", "<="]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of the gate.

    Attributes:
        limit: a number; with *baseline*, the greatest distance from the baseline's value.
        baseline: whether the value is compared with that of the baseline.
    """

    metric: str
    aggregate: Aggregate = "last"
    operator: Operator = ">="
    limit: float
    baseline: bool = False

    @property
    def text(self) -> str:
        """The rule as users write it."""
        if not self.baseline:
            return f"{self.aggregate} {self.operator} {self.limit}"
        sign = "-" if self.operator == ">=" else "+"
        return f"{self.aggregate} {self.operator} baseline {sign} {self.limit}"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A commit of a user's project.

    Attributes:
        key: its name in the scenario; it is part of the files, so that each is another work.
        metrics: metric → the values that the job logs, one a step.
        script: further lines of the job's script, before its metrics.
        ending: lines at its end, such as ``exit 3``.
        writes_model: whether the job writes the model that the configuration names.
        rules: of the gate.
        branch: what is checked out.
        baseline: ``branch`` compares with the branch main, ``stage`` with the model in production, None with nothing.
        tests_pass: whether the tests pass.
        build_seconds, test_seconds: how long the builder takes.
        retries: how often a preempted job is submitted again.
        stage: the stage that the model is registered in.
        promotes: the rules of the stage production.
    """

    key: str
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: {"accuracy": (0.7, 0.9)})
    script: tuple[str, ...] = ("say training", "wait 5")
    ending: tuple[str, ...] = ()
    writes_model: bool = True
    rules: tuple[Rule, ...] = (Rule(metric="accuracy", limit=0.8),)
    branch: str = "main"
    baseline: Literal["branch", "stage"] | None = None
    tests_pass: bool = True
    build_seconds: float = 40.0
    test_seconds: float = 15.0
    retries: int = 0
    stage: str | None = "candidate"
    promotes: tuple[Rule, ...] = (Rule(metric="accuracy", limit=0.5),)

    @property
    def sha(self) -> str:
        """The commit's hash."""
        return hashlib.sha1(f"{self.key}/{self.branch}".encode(), usedforsecurity=False).hexdigest()

    @property
    def command(self) -> str:
        """The script that is the job's command."""
        logged = [
            f"metric {name} {step} {value}"
            for name, values in self.metrics.items()
            for step, value in enumerate(values)
        ]
        model = ["write outputs/model/weights.bin weights of " + self.key] if self.writes_model else []
        return "\n".join([*self.script, *logged, *model, *self.ending])

    def files(self, world: World) -> dict[str, str]:
        """Return the files by their paths."""
        identity = world.identity
        return {
            "aml-train.yml": self._configuration(world),
            "job.yml": _job(self.command),
            "src/train.py": f"print({self.key!r})\n",
            "tests/test_model.py": "def test_model() -> None:\n    assert 1 == 1\n",
            "requirements.txt": f"# requirements of {identity.workspace}\nnumpy==2.1.0\n",
        }

    def check_out(self, world: World, folder: Path) -> Path:
        """Write the files below *folder*, as a clean checkout."""
        for name, text in self.files(world).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        checkout = CheckedOut(sha=self.sha, branch=self.branch, remote=REPOSITORY)
        world.repositories.add(folder, checkout)
        world.projects[self.key] = self
        return folder

    def _configuration(self, world: World) -> str:
        identity = world.identity
        lines = [
            "job: job.yml",
            "target: azure",
            "targets:",
            "  azure:",
            f"    subscription-id: {identity.subscription_id}",
            f"    resource-group: {identity.resource_group}",
            f"    workspace: {identity.workspace}",
            f"    compute: {identity.compute}",
            "image:",
            f"  base: {identity.login_server}/base:1",
            "  pip: requirements.txt",
            "  builder: acr",
            "tests:",
            "  command: pytest -q tests",
        ]
        lines += _rules("gate", self.rules, "")
        lines += {
            None: [],
            "branch": ["baseline: {branch: main, bootstrap: true, proof: recorded}"],
            "stage": [f"baseline: {{model: {MODEL}, stage: production, bootstrap: true}}"],
        }[self.baseline]
        if self.retries:
            lines.append(f"retry: {{preempted: {self.retries}}}")
        stage = f", stage: {self.stage}" if self.stage is not None else ""
        lines.append(f"model: {{name: {MODEL}, path: outputs/model, type: custom_model{stage}}}")
        lines += ["promote:", "  production:", *_rules("gate", self.promotes, "    "), "    bootstrap: true"]
        return "\n".join(lines) + "\n"


def _rules(key: str, rules: tuple[Rule, ...], indent: str) -> list[str]:
    if not rules:
        return []
    names = dict.fromkeys(rule.metric for rule in rules)
    lines = [f"{indent}{key}:"]
    for name in names:
        texts = ", ".join(f'"{rule.text}"' for rule in rules if rule.metric == name)
        lines.append(f"{indent}  {name}: [{texts}]")
    return lines


def _job(command: str) -> str:
    body = "\n".join(f"  {line}" for line in command.splitlines())
    return f"type: command\nexperiment_name: {MODEL}\ncode: src\ncommand: |-\n{body}\n"
