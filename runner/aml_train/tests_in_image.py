"""Run the user's tests inside an image and read their results."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aml_train.containers import fetch_file
from aml_train.errors import TestsFailedError
from aml_train.events import Listener, TestFailure, TestsFinished
from aml_train.image.spec import TestSpec
from aml_train.junit import JUnitReport, parse_junit
from aml_train.junit_places import Places
from aml_train.stopping import Stop, temporary
from aml_train.tests_container import (
    JUNIT_PATH,
    WORKSPACE,
    create_container,
    end_container,
    run_container,
    tell_kept,
    working_folder,
)

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_SPOOL: Final = 32 << 20
_SHOWN: Final = 20

# What the shell and pytest mean by an exit code (POSIX 2.8.2; https://docs.pytest.org/en/stable/reference/exit-codes.html).
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
    137: ("were killed", "Something sent SIGKILL, often for want of memory."),
}


@dataclass(frozen=True, kw_only=True)
class TestResults:
    """How tests that passed ended. Counts are None where no report was written (*report* is False).

    Attributes:
        seconds: how long the container ran.
        failures: what failed or could not run.
        slowest: name → seconds of the slowest few.
    """

    __test__ = False
    passed: int | None
    failed: int | None
    skipped: int | None
    errors: int | None
    seconds: float
    failures: tuple[TestFailure, ...]
    slowest: tuple[tuple[str, float], ...]
    report: bool


def run_tests(
    image: str, spec: TestSpec, *, engine: DockerClient, listener: Listener, stop: Stop | None = None
) -> TestResults:
    """Run *spec* in a container of *image*, which is removed afterwards, or kept where *spec* says so.

    The image's entrypoint is left out. Files are copied into :data:`WORKSPACE`; without ``network`` there is none.

    Args:
        image: image id or name, in the engine.
        spec: the tests.
        engine: the engine that has the image.
        listener: told each line as it comes, and the result.
        stop: ends the tests at once.

    Raises:
        StoppedError: if *stop* was set meanwhile.
        TestsFailedError: if a test failed, the command failed or took too long, or a report that must exist does not.
    """
    container: Container | None = None
    try:
        create, end = partial(create_container, image, spec, engine), partial(end_container, spec=spec)
        with temporary(create, end) as container, (stop or Stop()).frees(partial(end, container)):
            with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as archive:
                spec.files.tar(archive, prefix=WORKSPACE.strip("/"), folder_mode=0o777)
                archive.seek(0)
                container.put_archive("/", archive)
            seconds, timed_out = run_container(container, spec.timeout, engine, listener)
            container.reload()
            state: dict[str, Any] = container.attrs["State"]
            path = f"{working_folder(spec)}/{spec.junit}" if spec.junit is not None else JUNIT_PATH
            content = None if timed_out else _fetch(container, path)
    finally:
        if spec.keep and container is not None:
            tell_kept(container, spec, listener)
    report, damage = _read_report(content, path, spec)
    listener(
        TestsFinished(
            passed=report.passed if report else None,
            failed=report.failed + report.errors if report else None,
            skipped=report.skipped if report else None,
            seconds=seconds,
            cached=False,
            failures=report.failures if report else (),
            slowest=report.slowest if report else (),
        )
    )
    failure = judge(
        exit_code=state["ExitCode"],
        oom_killed=bool(state.get("OOMKilled")),
        timed_out=timed_out,
        report=report,
        damage=damage,
        spec=spec,
    )
    if failure is not None:
        raise failure
    return TestResults(
        passed=report.passed if report else None,
        failed=report.failed if report else None,
        skipped=report.skipped if report else None,
        errors=report.errors if report else None,
        seconds=seconds,
        failures=report.failures if report else (),
        slowest=report.slowest if report else (),
        report=report is not None,
    )


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

    Both must say so: the exit code and, where there is one, the report.
    """
    if timed_out:
        return TestsFailedError(
            f"the tests took longer than {spec.timeout:g} seconds and were killed",
            hint="Make them quicker, or raise tests.timeout.",
        )
    listed = _listing(report.failures) if report else ""
    if oom_killed:
        return TestsFailedError(
            "the tests were killed for want of memory" + listed,
            hint="Raise tests.memory." if spec.limits.memory is not None else "Give the engine more memory.",
        )
    if report is not None and report.failures:
        count = len(report.failures)
        ended = "" if exit_code else ", although the command ended with exit code 0"
        return TestsFailedError(
            f"{count} of {count + report.passed + report.skipped} tests failed in the image{ended}" + listed,
            hint="Nothing was released or submitted. The tests' output is above.",
        )
    if exit_code != 0:
        what, hint = _EXIT_CODES.get(exit_code, ("failed", "The tests' output is above."))
        return TestsFailedError(f"the tests {what} (exit code {exit_code}): {spec.command}", hint=hint)
    if damage is not None:
        return TestsFailedError(damage, hint="The report must be a JUnit file that the command writes at its end.")
    if spec.junit is not None and report is None:
        return TestsFailedError(
            f"the tests ended well but wrote no report at {spec.junit}",
            hint="Let the command write it there, or remove tests.junit.",
        )
    if report is not None and report.passed + report.skipped == 0:
        return TestsFailedError(f"the command ran no test: {spec.command}", hint=_EXIT_CODES[5][1])
    return None


def _listing(failures: tuple[TestFailure, ...]) -> str:
    lines = [f"  {failure}" for failure in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "".join(f"\n{line}" for line in lines)


def _fetch(container: Container, path: str) -> bytes | None:
    try:
        return fetch_file(container, path)
    except ValueError as error:
        raise TestsFailedError(
            str(error), hint="Check tests.junit; a report must be a file of at most 50 MiB."
        ) from error


def _read_report(content: bytes | None, path: str, spec: TestSpec) -> tuple[JUnitReport | None, str | None]:
    """Return the report, or what is wrong with it."""
    if content is None:
        return None, None
    try:
        places = Places(files={entry.path for entry in spec.files.entries}, root=WORKSPACE, workdir=spec.workdir)
        return parse_junit(content, places), None
    except ValueError as error:
        return None, f"the tests' report {path} cannot be read: {error}"
