"""The step: its files, its event, its actor, and its group of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aml_train.core.text import whole
from aml_train.pipeline.result import Group
from aml_train_action.github.proposals import OWN_CODE, Event, read_event

#: Of a tag's value in Azure: https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations
_LONGEST_TAG: Final = 256


@dataclass(frozen=True, kw_only=True)
class Step:
    """The step, as GitHub's variables describe it.

    Attributes:
        workspace: the checkout; absolute.
        output: file for outputs; None outside GitHub.
        summary: file for the summary; None outside GitHub.
        title: the heading of the summary.
        state: file for the post action; None outside GitHub.
        group: the pull request or branch that the run belongs to; None outside GitHub.
        event: the event that the run is for.
        actor: the user who started the run.
        run_url: address of the run; None outside GitHub.
    """

    workspace: Path
    output: Path | None
    summary: Path | None
    title: str
    state: Path | None = None
    group: Group | None = None
    event: Event = field(default_factory=lambda: read_event({}))
    actor: str = "unknown"
    run_url: str | None = None


def read_step(environ: Mapping[str, str]) -> Step:
    """Return the step; without GitHub the current folder is the workspace."""

    def path(name: str) -> Path | None:
        text = environ.get(name, "")
        return Path(text) if text else None

    repository = environ.get("GITHUB_REPOSITORY", "").rpartition("/")[2]
    return Step(
        workspace=(path("GITHUB_WORKSPACE") or Path()).absolute(),
        output=path("GITHUB_OUTPUT"),
        summary=path("GITHUB_STEP_SUMMARY"),
        title=repository or "aml-train",
        state=path("GITHUB_STATE"),
        group=_group(environ),
        event=read_event(environ),
        # A rerun has another actor than the first run.
        actor=environ.get("GITHUB_TRIGGERING_ACTOR") or environ.get("GITHUB_ACTOR") or Step.actor,
        run_url=_run_url(environ),
    )


def _run_url(environ: Mapping[str, str]) -> str | None:
    parts = [environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else None


def _group(environ: Mapping[str, str]) -> Group | None:
    """Return the group: the same job and workflow on the same pull request or branch.

    Source: https://docs.github.com/actions/reference/workflows-and-actions/variables (``GITHUB_RUN_ID`` grows from run to
    run; a pull request's ``GITHUB_REF`` is ``refs/pull/NUMBER/merge``).
    """
    run, ref = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_REF", "")
    sequence = whole(run)
    if sequence is None or not ref:
        return None
    pull = re.fullmatch(r"refs/pull/(\d+)/\w+", ref)
    place = f"#{pull[1]}" if pull else "@" + re.sub(r"^refs/(heads|tags)/", "", ref)
    words = [environ.get("GITHUB_REPOSITORY", "") + place]
    event = environ.get("GITHUB_EVENT_NAME", "")
    if not pull and event and event not in OWN_CODE:
        # It has the default branch's ref, and is no run of that branch.
        words.append(event)
    words += [environ[name] for name in ("GITHUB_WORKFLOW", "GITHUB_JOB") if environ.get(name)]
    return Group(name=" / ".join(words)[:_LONGEST_TAG], sequence=sequence)
