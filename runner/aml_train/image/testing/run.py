"""Run the user's tests inside an image and read their results."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from aml_train.core.docker import TooLargeError, fetch_files, pack_files
from aml_train.core.errors import TestsFailedError
from aml_train.core.events import Event, Listener, LogLine, TestFailure, TestsFinished
from aml_train.core.threads import CancelToken, temporary
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import (
    UNPLACED,
    WORKSPACE,
    End,
    Reports,
    create_container,
    end_container,
    plugin_files,
    refused,
    report_kept,
    report_places,
    run_container,
)
from aml_train.image.testing.junit import ClosingLines, JUnitReport, Places, merge_reports, parse_junit

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_SHOWN: Final = 20
_NOTHING_COLLECTED: Final = 5
_EVIDENCE: Final = "or let the exit status alone decide: `tests: {evidence: exit-code}`."
_PYTEST_STATUS: Final = re.compile(r"-(\d{1,3})\.xml$")
_EMPTY_HINT: Final = "Check tests.command and tests.files, or allow it: `tests: {allow-empty: true}`."

# Exit codes of the shell and of pytest (POSIX 2.8.2; https://docs.pytest.org/en/stable/reference/exit-codes.html).
_EXIT_CODES: Final[Mapping[int, tuple[str, str]]] = {
    2: (
        "were interrupted or could not be collected",
        "The lines above say why; an import error often is a missing package.",
    ),
    4: (
        "were called wrongly",
        "Check the options and paths in tests.command, and that tests.files has what it names.",
    ),
    5: ("were not found: the command ran no test", "Check tests.command, and that tests.files has the test files."),
    126: ("could not run: the command cannot be executed", "Check tests.command."),
    127: (
        "could not run: the command was not found in the image",
        "Add what it needs to image.pip or image.apt, such as pytest.",
    ),
    137: ("were killed", "SIGKILL was sent, often for lack of memory."),
}


def run_tests(
    image: str, spec: TestSpec, *, engine: DockerClient, listener: Listener, token: CancelToken | None = None
) -> TestsFinished:
    """Run *spec* in a container of *image*, which is removed unless kept.

    The image's entrypoint is left out. Files are copied into :data:`WORKSPACE`; without ``network`` there is none.

    Args:
        listener: receives each line as it comes, and the result.

    Returns:
        the result of tests that passed; counts are None if nothing shows them.

    Raises:
        WorkCancelledError: if *token* was cancelled meanwhile.
        TestsFailedError: if a test failed, the command failed or took too long, or nothing shows that a test was executed.
    """
    container: Container | None = None
    places = report_places(spec)
    closing = ClosingLines()

    def listen(event: Event) -> None:
        if isinstance(event, LogLine):
            closing.feed(event.text)
        listener(event)

    written = Written()
    try:
        create, end = partial(create_container, image, spec, places, engine), partial(end_container, spec=spec)
        with temporary(create, end) as container, (token or CancelToken()).on_cancel(partial(end, container)):
            with tempfile.SpooledTemporaryFile(max_size=32 << 20) as archive:
                spec.files.tar(archive, prefix=WORKSPACE.strip("/"), folder_mode=0o777)
                archive.seek(0)
                container.put_archive("/", archive)
            container.put_archive("/", pack_files(plugin_files(), folder=places.folder.strip("/")))
            ended = run_container(container, spec.timeout, engine, listen, refused)
            if not ended.timed_out:
                written = _fetch(container, places)
    finally:
        if spec.keep and container is not None:
            report_kept(container, spec, listener)
    return conclude(spec, ended, written, closing, listener)


@dataclass(frozen=True, kw_only=True)
class Written:
    """The reports that the tests wrote.

    Attributes:
        by_pytest: the report of each pytest, by its file's name; empty for a pytest that did not come to its end.
        named: what is at the configured path: a file, or the reports of a folder.
        damage: why they could not be fetched.
    """

    by_pytest: Mapping[str, bytes] = field(default_factory=dict)
    named: Mapping[str, bytes] = field(default_factory=dict)
    damage: str | None = None


def conclude(spec: TestSpec, end: End, written: Written, closing: ClosingLines, listener: Listener) -> TestsFinished:
    """Report and judge tests that have ended, wherever they ran.

    Args:
        spec: the tests.
        end: how their command ended.
        written: their reports.
        closing: what runners said at their end.
        listener: receives the result.

    Raises:
        TestsFailedError: as :func:`run_tests`.
    """
    report, damage = (None, None) if end.timed_out else weigh(spec, written, closing.reports)
    finished = TestsFinished(
        passed=report.passed if report else None,
        failed=report.failed + report.errors if report else None,
        skipped=report.skipped if report else None,
        seconds=end.seconds,
        cached=False,
        failures=report.failures if report else (),
        slowest=report.slowest if report else (),
    )
    listener(finished)
    if (failure := judge(end, report, damage, spec)) is not None:
        raise failure
    return finished


def weigh(spec: TestSpec, written: Written, closing: Sequence[JUnitReport]) -> tuple[JUnitReport | None, str | None]:
    """Return the results of all reports as one, and why they are no evidence. Pure.

    Closing lines count where no report shows a test that was executed; those of failed tests in any case.
    """
    places = Places(files={entry.path for entry in spec.files.entries}, root=WORKSPACE, workdir=spec.workdir)
    found, damages = [], [written.damage] if written.damage else []
    for name, content in sorted(written.by_pytest.items()):
        status = int(match[1]) if (match := _PYTEST_STATUS.search(name)) else None
        if not content or (status is None and not name.endswith(UNPLACED)):
            damages.append("a pytest did not come to its end, and left no report")
            continue
        try:
            report = parse_junit(content, places, by_pytest=True)
        except ValueError as error:
            damages.append(f"the report of a pytest cannot be read: {error}")
            continue
        found.append(report)
        if status and status != _NOTHING_COLLECTED and not report.failures:
            damages.append(f"a pytest ended with exit code {status}")
    for name, content in sorted(written.named.items()):
        if content not in written.by_pytest.values():
            try:
                found.append(parse_junit(content, places))
            except ValueError as error:
                damages.append(f"the tests' report {name} cannot be read: {error}")
    if spec.junit is not None and not written.named and not damages:
        damages.append(f"the tests wrote no report at {spec.junit}")
    shown = merge_reports(found or closing)
    if shown is not None and found and not shown.failures:
        missing = [one for one in closing if one.failures or (one.executed and not shown.executed)]
        shown = merge_reports([*found, *missing])
    return shown, damages[0] if damages else None


def judge(end: End, report: JUnitReport | None, damage: str | None, spec: TestSpec) -> TestsFailedError | None:
    """Return the error that the tests' end means, or None where they passed. Pure.

    They pass on evidence alone: exit code 0, a test that was executed, and no failure in any report.

    Args:
        end: how the command ended.
        report: the results of the tests; None where nothing shows any.
        damage: why reports are no evidence.
        spec: the tests.
    """
    if end.timed_out:
        return TestsFailedError(
            f"the tests took longer than {spec.timeout:g} seconds and were killed",
            hint="Make them quicker, or raise tests.timeout.",
        )
    listed = _listing(report.failures) if report else ""
    if end.oom_killed:
        return TestsFailedError(
            "the tests were killed for lack of memory" + listed,
            hint="Raise tests.memory." if spec.limits.memory is not None else "Give the engine more memory.",
        )
    if report is not None and report.failures:
        count = report.failed + report.errors
        ended = "" if end.exit_code else ", although the command ended with exit code 0"
        return TestsFailedError(
            f"{count} of {count + report.passed + report.skipped} tests failed in the image{ended}" + listed,
            hint="Nothing was released or submitted. The tests' output is above.",
        )
    empty = damage is None and report is not None and report.executed == 0
    if end.exit_code == _NOTHING_COLLECTED and empty and spec.allow_empty:
        return None
    if end.exit_code != 0:
        what, hint = _EXIT_CODES.get(end.exit_code, ("failed", "The tests' output is above."))
        unread = f" Single tests are not known: {damage}." if damage is not None else ""
        return TestsFailedError(f"the tests {what} (exit code {end.exit_code}): {spec.command}", hint=hint + unread)
    if spec.evidence == "exit-code":
        return None
    if damage is not None:
        return TestsFailedError(
            f"{damage}, although the command ended with exit code 0: {spec.command}",
            hint=f"The tests' output is above. Correct it, {_EVIDENCE}",
        )
    if report is None:
        return TestsFailedError(
            f"nothing shows that a test was executed: {spec.command}",
            hint="The results of pytest and unittest are recognised. Name the JUnit report of another program "
            f"(`tests: {{junit: PATH}}`), {_EVIDENCE}",
        )
    if report.executed or spec.allow_empty:
        return None
    if not report.skipped:
        return TestsFailedError(f"the command ran no test: {spec.command}", hint=_EMPTY_HINT)
    which = "the only one was" if report.skipped == 1 else f"all {report.skipped} were"
    return TestsFailedError(f"no test was executed: {which} skipped: {spec.command}", hint=_EMPTY_HINT)


def _listing(failures: tuple[TestFailure, ...]) -> str:
    lines = [f"  {failure}" for failure in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "".join(f"\n{line}" for line in lines)


def _fetch(container: Container, places: Reports) -> Written:
    try:
        return Written(
            by_pytest=fetch_files(container, places.folder, suffix=".xml"),
            named={} if places.named is None else fetch_files(container, places.named, suffix=".xml"),
        )
    except TooLargeError as error:
        return Written(damage=f"the tests' report {error}")
