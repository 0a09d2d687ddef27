"""The report: written by a run, shown in the pull request by `command: report`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aml_train.core.errors import Fault, InvalidError
from aml_train.pipeline.report.values import MOST_BYTES, Source, decode
from aml_train_action.github.api import open_api
from aml_train_action.github.payload import read_payload
from aml_train_action.inputs.inputs import Inputs
from aml_train_action.inputs.pulls import PullInputs, configuration_name
from aml_train_action.pulls.artifact import list_reports, load_report
from aml_train_action.pulls.find import find_own, find_triggering
from aml_train_action.pulls.marker import key_of
from aml_train_action.pulls.posting import post_comment
from aml_train_action.report import made
from aml_train_action.report.files import report_path, write_report
from aml_train_action.report.made import Origin, encode_within
from aml_train_action.session import Session

if TYPE_CHECKING:
    from aml_train.pipeline.report.values import Report
    from aml_train_action.github.api import Api
    from aml_train_action.pulls.find import Found


def write(session: Session) -> None:
    """Write the report of a run, also of one that failed; nothing outside GitHub.

    Raises:
        InvalidError: its file cannot be written.
    """
    command = session.environ.get("INPUT_COMMAND", "").strip() or "run"
    if session.step.output is None or command not in ("run", "attach"):
        return

    given = session.environ.get("INPUT_REPORT-FILE", "").strip()
    path = report_path(session.environ, given)
    write_report(session.step.workspace, path, encode_within(report_of(session), most=MOST_BYTES))
    session.record.report_file = path


def report_of(session: Session) -> Report:
    """Return the report of what the run has come to."""
    return made.report_of(session.record, _origin(session))


def _origin(session: Session) -> Origin:
    mask, step = session.files.mask, session.step
    configuration, target = configuration_name(session.environ, step.workspace)
    pull = re.fullmatch(r"refs/pull/([1-9]\d{0,9})/\w+", step.event.ref)
    return Origin(
        title=mask(step.title),
        configuration=mask(configuration),
        target=mask(target),
        source=Source(
            repository=mask(step.event.repository),
            commit=step.event.sha,
            branch=mask(step.event.branch or ""),
            pull_request=int(pull[1]) if pull else None,
            run_url=mask(step.run_url or ""),
        ),
        reproduce=mask(session.reproduce),
        created=datetime.datetime.now(datetime.UTC).replace(microsecond=0),
        rule_place=_rule_place(session),
        test_place=_test_place(session),
    )


def _rule_place(session: Session) -> Callable[[str], str]:
    def place(where: str) -> str:
        file, line = session.places.split(where) if session.places else (None, None)
        return f"{file}:{line}" if file and line else file or ""

    return place


def _test_place(session: Session) -> Callable[[str], str]:
    def place(file: str) -> str:
        found = session.places.relative(file, start=session.places.project) if session.places else None
        return found or ""

    return place


def show(session: Session, inputs: Inputs) -> None:
    """Show reports in the pull request, of the triggering run or of this one."""
    pulls = inputs.pulls
    api = open_api(session.environ, pulls.github_token)
    payload = read_payload(session.environ)
    if session.step.event.name == "workflow_run":
        if pulls.report_file or pulls.result:
            what = "reports of another run are read from its artifacts"
            raise InvalidError([Fault(where="with.report-file", what=what, remedy="delete report-file and result")])
        found = find_triggering(api, payload, pulls.workflow)
    else:
        found = find_own(api, payload, session.environ, result=pulls.result)
    if found.why_not:
        _end(session, "unchanged", f"Nothing is shown: {found.why_not}.")
        return
    reports = _reports(session, api, pulls, found)
    if not reports:
        _end(session, "unchanged", "Nothing is shown: the run has no artifact whose name begins with pr-report.")
        return
    _post(session, api, reports, found)


def _post(session: Session, api: Api, reports: Mapping[str, Report], found: Found) -> None:
    lines = []
    for report in reports.values():
        for subject in found.subjects:
            outcome = post_comment(api, report, subject)
            lines.append(f"The comment in pull request {subject.pull_request} is {outcome}.")
    _end(session, "reported", "\n".join(lines))


def _reports(session: Session, api: Api, pulls: PullInputs, found: Found) -> dict[str, Report]:
    """Return the reports by the key of their comments.

    Raises:
        InvalidError: two are about one configuration, or one is no report.
    """
    if pulls.report_file:
        try:
            with (session.step.workspace / pulls.report_file).open("rb") as file:
                loaded = [decode(file.read(MOST_BYTES + 1), origin=pulls.report_file)]
        except (OSError, ValueError) as error:
            what = f"the file cannot be read ({type(error).__name__})"
            raise InvalidError([Fault(where="with.report-file", what=what)]) from error
    else:
        loaded = [load_report(api, artifact) for artifact in list_reports(api, found.run)]
    reports: dict[str, Report] = {}
    for report in loaded:
        key = key_of(report.configuration, report.target)
        if key in reports:
            raise InvalidError("Two artifacts of the run have a report of the same configuration and target.")
        reports[key] = report
    return reports


def _end(session: Session, status: str, message: str) -> None:
    session.record.end(status, 0, message)
    session.channel.text(message, sign="✓" if status == "reported" else "·")
