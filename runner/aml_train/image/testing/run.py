"""Run the user's tests inside an image and read their results."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.docker import TooLargeError, fetch_file, pack_files
from aml_train.core.errors import TestsFailedError
from aml_train.core.events import Listener, Notice, TestFailure, TestsFinished
from aml_train.core.interrupts import freed_by_interrupt
from aml_train.core.threads import CancelToken, temporary
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import (
    WORKSPACE,
    create_container,
    end_container,
    report_kept,
    report_path,
    run_container,
)
from aml_train.image.testing.junit import JUnitReport, Places, parse_junit
from aml_train.image.testing.pytest_command import ends_as_pytest, runs_pytest

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_SPOOL: Final = 32 << 20
_SHOWN: Final = 20
_NOTHING_COLLECTED: Final = 5
_USABLE: Final = "It must be a JUnit file of at most 50 MiB that the command writes at its end."
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
        the result of tests that passed; counts are None if no report was written.

    Raises:
        WorkCancelledError: if *token* was cancelled meanwhile.
        TestsFailedError: if a test failed, the command failed or took too long, or a report that must exist does not.
    """
    container: Container | None = None
    place = report_path(spec)
    try:
        create, end = partial(create_container, image, spec, place, engine), partial(end_container, spec=spec)
        with temporary(create, end) as container, (token or CancelToken()).on_cancel(partial(end, container)):
            with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as archive:
                spec.files.tar(archive, prefix=WORKSPACE.strip("/"), folder_mode=0o777)
                archive.seek(0)
                container.put_archive("/", archive)
            if place.folder is not None:
                container.put_archive("/", pack_files({}, folder=place.folder))
            with freed_by_interrupt(partial(end, container)):
                seconds, timed_out = run_container(container, spec.timeout, engine, listener)
            container.reload()
            state: dict[str, Any] = container.attrs["State"]
            report, damage = (None, None) if timed_out else _read_report(container, place.path, spec)
    finally:
        if spec.keep and container is not None:
            report_kept(container, spec, listener)
    return _conclude(
        spec,
        exit_code=state["ExitCode"],
        oom_killed=bool(state.get("OOMKilled")),
        timed_out=timed_out,
        report=report,
        damage=damage,
        seconds=seconds,
        listener=listener,
    )


def conclude(
    spec: TestSpec,
    *,
    exit_code: int,
    timed_out: bool,
    content: bytes | None,
    path: str,
    seconds: float,
    listener: Listener,
) -> TestsFinished:
    """Report and judge tests that ran elsewhere, as those of :func:`run_tests` are.

    Args:
        spec: the tests.
        exit_code: of the command.
        timed_out: whether it was killed for the time.
        content: the report; None if the tests wrote none.
        path: of the report in the container.
        seconds: how long they ran.
        listener: receives the result.

    Raises:
        TestsFailedError: as :func:`run_tests`.
    """
    report, damage = (None, None) if timed_out else _parse_report(content, path, spec)
    return _conclude(
        spec,
        exit_code=exit_code,
        oom_killed=False,
        timed_out=timed_out,
        report=report,
        damage=damage,
        seconds=seconds,
        listener=listener,
    )


def _conclude(
    spec: TestSpec,
    *,
    exit_code: int,
    oom_killed: bool,
    timed_out: bool,
    report: JUnitReport | None,
    damage: str | None,
    seconds: float,
    listener: Listener,
) -> TestsFinished:
    finished = TestsFinished(
        passed=report.passed if report else None,
        failed=report.failed + report.errors if report else None,
        skipped=report.skipped if report else None,
        seconds=seconds,
        cached=False,
        failures=report.failures if report else (),
        slowest=report.slowest if report else (),
    )
    listener(finished)
    failure = judge(
        exit_code=exit_code, oom_killed=oom_killed, timed_out=timed_out, report=report, damage=damage, spec=spec
    )
    if failure is not None:
        raise failure
    if damage is not None:
        listener(
            Notice(
                text=f"{damage}: pytest's exit code decides, and nothing is known of single tests.", level="warning"
            )
        )
    return finished


def judge(
    *,
    exit_code: int,
    oom_killed: bool,
    timed_out: bool,
    report: JUnitReport | None,
    damage: str | None,
    spec: TestSpec,
) -> TestsFailedError | None:
    """Return the error that the tests' end means, or None where they passed. Pure.

    Both must say so: the exit code and the report, which must exist if it is configured or pytest writes it.

    Args:
        exit_code: the container's.
        oom_killed: whether the kernel ended it for its memory.
        timed_out: whether it was killed for the time.
        report: what the tests wrote; None for nothing, or nothing that can be used.
        damage: why what they wrote cannot be used.
        spec: the tests.
    """
    if timed_out:
        return TestsFailedError(
            f"the tests took longer than {spec.timeout:g} seconds and were killed",
            hint="Make them quicker, or raise tests.timeout.",
        )
    listed = _listing(report.failures) if report else ""
    if oom_killed:
        return TestsFailedError(
            "the tests were killed for lack of memory" + listed,
            hint="Raise tests.memory." if spec.limits.memory is not None else "Give the engine more memory.",
        )
    if report is not None and report.failures:
        count = len(report.failures)
        ended = "" if exit_code else ", although the command ended with exit code 0"
        return TestsFailedError(
            f"{count} of {count + report.passed + report.skipped} tests failed in the image{ended}" + listed,
            hint="Nothing was released or submitted. The tests' output is above.",
        )
    empty = report is not None and report.executed == 0
    if exit_code == _NOTHING_COLLECTED and empty and spec.allow_empty and runs_pytest(spec.command):
        return None
    if exit_code != 0:
        what, hint = _EXIT_CODES.get(exit_code, ("failed", "The tests' output is above."))
        unread = f" Single tests are not known: {damage}." if damage is not None else ""
        return TestsFailedError(f"the tests {what} (exit code {exit_code}): {spec.command}", hint=hint + unread)
    if damage is not None:
        return None if spec.junit is None and ends_as_pytest(spec.command) else TestsFailedError(damage, hint=_USABLE)
    if report is None:
        return _missing(spec)
    return None if report.executed or spec.allow_empty else _nothing_executed(report, spec)


def _missing(spec: TestSpec) -> TestsFailedError | None:
    """Return the error of a missing report for tests that ended with exit code 0."""
    if spec.junit is not None:
        return TestsFailedError(
            f"the tests ended well but wrote no report at {spec.junit}",
            hint="Let the command write it there, or remove tests.junit.",
        )
    if not runs_pytest(spec.command):
        return None
    return TestsFailedError(
        f"pytest ended with exit code 0 and wrote no report, so that it did not come to its end: {spec.command}",
        hint="Something may have ended its process, such as os._exit() in a test or in what it calls. "
        "If the command has its own --junitxml, give the same path as tests.junit.",
    )


def _nothing_executed(report: JUnitReport, spec: TestSpec) -> TestsFailedError:
    if not report.skipped:
        return TestsFailedError(f"the command ran no test: {spec.command}", hint=_EMPTY_HINT)
    which = "the only one was" if report.skipped == 1 else f"all {report.skipped} were"
    return TestsFailedError(f"no test was executed: {which} skipped: {spec.command}", hint=_EMPTY_HINT)


def _listing(failures: tuple[TestFailure, ...]) -> str:
    lines = [f"  {failure}" for failure in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "".join(f"\n{line}" for line in lines)


def _read_report(container: Container, path: str, spec: TestSpec) -> tuple[JUnitReport | None, str | None]:
    """Return the report of tests that have ended, or why it cannot be used."""
    try:
        content = fetch_file(container, path)
    except TooLargeError as error:
        return None, f"the tests' report {error}"
    except ValueError as error:
        return None, f"the tests' report {path} cannot be read: {error}"
    return _parse_report(content, path, spec)


def _parse_report(content: bytes | None, path: str, spec: TestSpec) -> tuple[JUnitReport | None, str | None]:
    """Return the report in *content*, or why it cannot be used."""
    if not content:
        return None, None
    places = Places(files={entry.path for entry in spec.files.entries}, root=WORKSPACE, workdir=spec.workdir)
    try:
        return parse_junit(content, places), None
    except ValueError as error:
        return None, f"the tests' report {path} cannot be read: {error}"
