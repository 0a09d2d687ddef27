"""The report: written by a run, shown in the pull request by `command: report`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aml_train.core.errors import Fault, InvalidError
from aml_train.report import values
from aml_train.report.values import Source, tidy
from aml_train_action.github.api import open_api
from aml_train_action.github.proposals import read_payload
from aml_train_action.inputs.inputs import Inputs
from aml_train_action.pulls.artifact import list_reports, load_report
from aml_train_action.pulls.comment import key_of
from aml_train_action.pulls.find import find_triggering
from aml_train_action.pulls.posting import post_comment
from aml_train_action.report.files import write_report
from aml_train_action.session import Session

if TYPE_CHECKING:
    from aml_train.report.record import RunRecord
    from aml_train.report.values import Report
    from aml_train_action.github.annotations import Places


def write(session: Session) -> None:
    """Write the report of a run, also of one that failed; nothing outside GitHub.

    Raises:
        InvalidError: its file cannot be written.
    """
    command = session.environ.get("INPUT_COMMAND", "").strip() or "run"
    if session.step.output is None or command not in ("run", "attach"):
        return

    data = values.encode(report_of(session, session.shown()))
    session.report_file = write_report(session.environ, session.step.workspace, data)


def report_of(session: Session, shown: RunRecord) -> Report:
    """Return the report of what the run has come to, with places relative to the repository's root.

    *shown* is without secrets.
    """
    mask, step, places = session.files.mask, session.step, session.places
    configuration, target = configuration_name(session.environ, step.workspace)
    pull = re.fullmatch(r"refs/pull/([1-9]\d{0,9})/\w+", step.event.ref)
    source = Source(
        repository=step.event.repository,
        commit=step.event.sha,
        branch=step.event.branch or "",
        pull_request=int(pull[1]) if pull else None,
        run_url=step.run_url or "",
    )
    origin = values.Report(
        title=step.title,
        created=shown.report.created,
        status="",
        configuration=configuration,
        target=target,
        source=source,
        reproduce=session.reproduce,
    )
    names = ("title", "configuration", "target", "source", "reproduce")
    origin = tidy(origin, mask, session.files.mask_name)
    return replace(
        shown.report,
        **{name: getattr(origin, name) for name in names},
        rules=tuple(replace(one, where=_rule_place(places, one.where)) for one in shown.report.rules),
        tests=tuple(
            replace(
                one,
                failures=tuple(
                    replace(test, file=_test_place(places, test.file), output="") for test in one.failures
                ),
            )
            for one in shown.report.tests
        ),
    )


def configuration_name(environ: Mapping[str, str], workspace: Path) -> tuple[str, str]:
    """Return the names of the step's configuration and target, whatever else is wrong.

    Each configuration has one comment in a pull request, also one that cannot be read.

    Args:
        environ: the step's; inputs are ``INPUT_…`` in it.
        workspace: the root of the checkout.
    """

    def given(name: str) -> str:
        return environ.get(f"INPUT_{name.upper()}", "").strip()

    folder = given("working-directory") or "."
    name = given("config")
    if not name:
        try:
            bare = not (workspace / folder / "aml-train.yml").exists() and (workspace / folder / "job.yml").exists()
        except (OSError, ValueError):
            bare = False
        name = "job.yml" if bare else "aml-train.yml"
    path = posixpath.normpath(posixpath.join(folder, name))
    return (f"{path}, {given('job')}" if given("job") else path), given("target")


def _rule_place(places: Places | None, where: str) -> str:
    file, line = places.split(where) if places else (None, None)
    return f"{file}:{line}" if file and line else file or ""


def _test_place(places: Places | None, file: str | None) -> str:
    return (places.relative(file, start=places.project) if places and file else None) or ""


def show(session: Session, inputs: Inputs) -> None:
    """Show the reports of the run that triggered this one, in its pull request.

    Raises:
        InvalidError: two are about one configuration, or one is no report.
    """
    if session.step.event.name != "workflow_run":
        remedy = "write a workflow for it, such as report.yml in docs/workflows.md"
        raise InvalidError(
            [Fault(where="with.command", what="`report` is for the event workflow_run", remedy=remedy)]
        )
    api = open_api(session.environ, inputs.github_token)
    found = find_triggering(api, read_payload(session.environ), inputs.workflow)
    if found.why_not:
        _end(session, "unchanged", f"Nothing is shown: {found.why_not}.")
        return
    reports: dict[str, Report] = {}
    for artifact in list_reports(api, found.run):
        report = load_report(api, artifact)
        key = key_of(report.configuration, report.target)
        if key in reports:
            raise InvalidError("Two artifacts of the run have a report of the same configuration and target.")
        reports[key] = report
    if not reports:
        _end(session, "unchanged", "Nothing is shown: the run has no artifact whose name begins with pr-report.")
        return
    lines = []
    for report in reports.values():
        for subject in found.subjects:
            outcome = post_comment(api, report, subject)
            lines.append(f"The comment in pull request {subject.pull_request} is {outcome}.")
    _end(session, "reported", "\n".join(lines))


def _end(session: Session, status: str, message: str) -> None:
    session.record.end(status, 0, message)
    session.channel.text(message, sign="✓" if status == "reported" else "·")
