"""A workspace in memory whose models can be promoted, and a storage whose lock can be lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.cli.process import run_command_line
from aml_train.config.sections.gate import GateRule
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.events import Broadcast, Event
from aml_train.core.tags import Tag
from aml_train.gate.rules import parse_rule
from aml_train.jobs.workspace import ModelView
from aml_train.models.lineage import Tracer
from aml_train.models.promotion.promote import Promoter
from aml_train.pipeline.evaluate import evaluate
from aml_train.testing.override import HeldRecord, MemoryCatalogue, MemoryRecords
from tests.support.fake_workspace import FakeClock, FakeService


class KilledError(BaseException):
    """Stands for the end of the process, which nothing handles."""


@dataclass
class FakeCatalogue(MemoryCatalogue):
    """Remembers what is written; *death* is the write, from 1, at which the process dies."""

    writes: list[tuple[str, Mapping[str, str | None]]] = field(default_factory=list)
    death: int | None = None

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
    ) -> None:
        def write() -> None:
            guard()
            if self.death is not None and len(self.writes) + 1 >= self.death:
                raise KilledError
            self.writes.append((version, changes))

        super().change_tags(name, version, changes, guard=write)


@dataclass
class FakeStore(MemoryRecords):
    """*before_hold* happens before the lock is had, as another's promotion may; it can be *lost*."""

    before_hold: list[Callable[[], None]] = field(default_factory=list)
    lost: bool = False

    @contextlib.contextmanager
    def hold(self, model: str) -> Iterator[HeldRecord]:
        if self.before_hold:
            self.before_hold.pop(0)()
        with super().hold(model):
            yield FakeHeld(self, model)


@dataclass
class FakeHeld(HeldRecord):
    store: FakeStore

    def renew(self) -> None:
        if self.store.lost:
            raise ServiceError("the lock was lost", transient=True)

    def write(self, content: bytes) -> None:
        self.renew()
        super().write(content)


@dataclass
class Place:
    """A workspace with the model ``digits``: each version of a job of its own that logged ``acc``.

    *foreign* is why no version is proved; empty where each is.
    """

    service: FakeService = field(default_factory=lambda: FakeService(artifacts=["outputs/model/weights"]))
    store: FakeStore = field(default_factory=FakeStore)
    events: list[Event] = field(default_factory=list)
    foreign: str = ""
    catalogue: FakeCatalogue = field(init=False)

    def __post_init__(self) -> None:
        self.catalogue = FakeCatalogue(self.service)

    def add(self, acc: float, stage: str | None = None, *, gate: str = "passed", job: str | None = None) -> str:
        """Register the next version, and return it."""
        version = str(len(self.service.registered) + 1)
        job = job or f"job-{version}"
        self.service.history_of[job] = {"acc": [acc]}
        tags = {
            "aml-train.job": job,
            "aml-train.model-source": f"azureml://jobs/{job}/outputs/artifacts/paths/outputs/model",
            Tag.GATE: gate,
        }
        tags |= {Tag.STAGE: stage} if stage else {}
        self.service.registered.append(ModelView(name="digits", version=version, path=f"path/{version}", tags=tags))
        return version

    def stages(self) -> dict[str, str | None]:
        """Return every version's stage."""
        return {model.version: model.staged for model in self.service.registered}

    def tags(self, version: str) -> Mapping[str, str]:
        """Return a version's tags."""
        found = self.catalogue.version("digits", version)
        assert found is not None
        return found.tags

    def promoter(self) -> Promoter:
        """Return what promotes here."""
        clock = FakeClock()
        return Promoter(
            service=self.service,
            catalogue=self.catalogue,
            store=self.store,
            tracer=Tracer(service=self.service, catalogue=self.catalogue, registry=lambda _host: None),
            evaluate=evaluate,
            clock=Clock(now=clock.now, sleep=clock.sleep),
            listener=self.events.append,
            prove=lambda _model, _policy: self.foreign,
        )


def rules(*texts: str) -> tuple[GateRule, ...]:
    """Return rules over ``acc``."""
    return tuple(GateRule(metric="acc", rule=parse_rule(text), where="aml-train.yml:9") for text in texts)


def use_place(monkeypatch: pytest.MonkeyPatch, folder: Path, place: Place, configuration: str) -> Place:
    """Have commands promote in *place*, in a folder with this aml-train.yml."""

    def opened(*args: Any, **_more: Any) -> Any:
        return replace(place.promoter(), listener=Broadcast(place.events.append, args[-1]))

    monkeypatch.setattr("aml_train.cli.model.open_promoter", opened)
    monkeypatch.chdir(folder)
    Path("aml-train.yml").write_text(configuration)
    return place


def run_command(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    """Run `aml-train` with these arguments in this process; return its exit code."""
    monkeypatch.setattr("sys.argv", ["aml-train", *args])
    return run_command_line()
