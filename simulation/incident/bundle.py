"""Read the bundle of a recorded run, which is foreign: bounded and checked."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aml_train.config import Config
from aml_train.core.version import __version__
from aml_train.pipeline import Plan, RunOptions
from aml_train.pipeline.record.bundle import FORMAT, MOST
from aml_train.pipeline.record.values import decode

#: The status word of a replay that goes beyond its recording, for instance past a defect that is mended.
BEYOND: Final = "beyond"
_FILES: Final = ("bundle", "config", "plan", "options", "calls", "events", "exchange")


class ReplayError(Exception):
    """A bundle that cannot be replayed: what is wrong, where, and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended.

    Attributes:
        status, exit_code: those of the table of endings, or :data:`BEYOND`; None if a defect ended the run.
        message: the first line of the reason.
        defect: the name of the exception's class that ended it; empty for none.
    """

    status: str | None
    exit_code: int | None
    message: str = ""
    defect: str = ""

    def __str__(self) -> str:
        if self.status == BEYOND:
            return "beyond the recording: it sent a request that is not in the bundle"
        return f"a defect: {self.defect}" if self.defect else f"{self.status} (exit code {self.exit_code})"

    def same(self, other: Ending) -> bool:
        """Return whether both are the same ending; messages have placeholders."""
        return (self.status, self.exit_code, self.defect) == (other.status, other.exit_code, other.defect)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A recorded run, read.

    Attributes:
        facts: versions, options and cuts.
        config, plan, options: as they were, with placeholders.
        calls: what the target did.
        events: what the run reported.
        exchange: requests and answers, in the order in which they were sent.
        interruptions: the seconds of each interruption.
    """

    facts: dict[str, Any]
    config: Any
    plan: Any
    options: Any
    calls: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    exchange: list[dict[str, Any]] = field(default_factory=list)
    interruptions: tuple[float, ...] = ()

    @property
    def ending(self) -> Ending:
        """How the recorded run ended."""
        trace, ending = self.facts.get("traceback"), self.facts.get("ending") or {}
        if trace:
            raised = trace["chain"][0]
            return Ending(status=None, exit_code=None, defect=str(raised["type"]), message=str(raised["message"]))
        return Ending(
            status=ending.get("status"), exit_code=ending.get("exit_code"), message=str(ending.get("message") or "")
        )


def read_bundle(path: Path) -> Bundle:
    """Return the recorded run in *path*.

    Raises:
        ReplayError: it is no bundle, of another format, or ended before there was a plan.
    """
    documents = _documents(path)
    facts = documents["bundle"]
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise ReplayError(f"{path}: the bundle has the format {found!r}, and this version reads {FORMAT}.")
    if documents["plan"] is None:
        ended = (facts.get("ending") or {}).get("status") or "a defect"
        raise ReplayError(f"{path}: the run ended before it had a plan, as {ended}: there is nothing to replay.")
    try:
        config, plan, options = (decode(documents[name]) for name in ("config", "plan", "options"))
        for value, cls in ((config, Config), (plan, Plan), (options, RunOptions)):
            if not isinstance(value, cls):
                raise TypeError(f"it holds no {cls.__name__}")  # noqa: TRY301 - reported with the version below
        return Bundle(
            facts=facts,
            config=config,
            plan=plan,
            options=options,
            calls=_list(documents["calls"]),
            events=_list(documents["events"]),
            exchange=_list(documents["exchange"]),
            interruptions=tuple(float(one) for one in facts.get("interruptions") or ()),
        )
    except (ValueError, TypeError, KeyError) as error:
        by = (facts.get("versions") or {}).get("aml-train")
        raise ReplayError(
            f"{path}: {error}. The bundle was written by aml-train {by}, and this is {__version__}: check out that version."
        ) from error


def _documents(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(one.file_size for one in archive.infolist()) > 4 * MOST:
                raise ReplayError(f"{path}: the bundle is too large.")
            return {name: json.loads(archive.read(f"{name}.json")) for name in _FILES}
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, RecursionError) as error:
        raise ReplayError(f"{path} is no bundle of a recorded run: {error}") from error


def _list(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("a list of objects is expected")
    return value
