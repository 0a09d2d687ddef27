"""``tests:``: what runs inside the image before anything is submitted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final, Literal

from aml_train.config.job.references import remark_lost
from aml_train.config.job.script import check_tests
from aml_train.config.section import (
    PATTERN,
    SIZE_PATTERN,
    VARIABLES,
    CheckedTree,
    inside,
    key,
    keys_of,
    make,
    section,
    size,
    size_in_bytes,
)
from aml_train.config.yaml.nodes import ScalarNode, find
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Number, Text
from aml_train.config.yaml.structures import Either, Items, Record


@section
class ContainerLimits:
    """Limits of the tests' container.

    Sizes are in bytes, -1 for no bound, None for the engine's own bound.
    """

    cpus: float | None = key(
        Number(noun="a number of processors, such as 1.5", whole=False, minimum=0.01),
        "Processors that the tests may use; all by default.",
        default=None,
    )
    memory: int | None = key(
        size("a size such as `8g`"), "Memory that the tests may use, such as `8g`; all by default.", default=None
    )
    shm: int = key(size("a size such as `1g`"), "Size of `/dev/shm`, such as `8g`; `1g` by default.", default=1 << 30)
    memlock: int | None = key(
        Text(
            noun="a size such as `1g`, or `unlimited`",
            pattern=f"unlimited|{SIZE_PATTERN}",
            convert=lambda text: -1 if text == "unlimited" else size_in_bytes(text),
        ),
        "Memory that may be locked, or `unlimited`, as InfiniBand needs it; the engine's bound by default.",
        default=None,
    )
    gpus: Literal["auto", "none", "all"] = key(
        Choice(words=("auto", "none", "all")),
        "GPUs that the tests see: `auto` (all, if the engine has any; the default), `none`, or `all`.",
        default="auto",
    )


@section
class TestSettings:
    """How tests run; *timeout* in seconds. The keys of *limits* are keys of the section."""

    __test__ = False
    command: str = key(Text(noun="a shell command"), "Command that runs inside the image.")
    shell: tuple[str, ...] = key(
        Text(noun="a shell with its options", rule=shlex.split, convert=shlex.split),
        "Shell that runs the command, such as `bash -eo pipefail`; `/bin/sh -e` by default: the first command that fails ends the tests.",
        default=("/bin/sh", "-e"),
    )
    env: Mapping[str, str] = key(VARIABLES, "Environment variables of the tests.", factory=dict)
    workdir: str = key(
        Text(noun="a folder inside the project", rule=inside, convert=lambda text: text.strip("/")),
        "Folder that the command runs in, relative to the project; the project itself by default.",
        default="",
    )
    timeout: float = key(
        Duration(), "Bound of the tests, in seconds or such as `30m`; `30m` by default.", default=1800.0
    )
    network: bool = key(Flag(), "Whether the tests may use the network; false by default.", default=False)
    limits: ContainerLimits = ContainerLimits()
    junit: str | None = key(
        Text(noun="a path inside the container", rule=inside),
        "JUnit report, or folder of reports, that the command must write; pytest and unittest need none.",
        default=None,
    )
    allow_empty: bool = key(Flag(), "Whether tests pass of which none was executed; false by default.", default=False)
    evidence: Literal["report", "exit-code"] = key(
        Choice(words=("report", "exit-code")),
        "Evidence of executed tests: `report` (of pytest, unittest or `junit`; the default), or `exit-code`: exit code 0 is enough.",
        default="report",
    )


@section
class TestsConfig(TestSettings):
    """``tests:``, with the patterns of the files that they see."""

    files: tuple[str, ...] = key(
        Either(
            noun="a glob pattern, or a list of them",
            scalar=PATTERN,
            items=Items(item=PATTERN, noun="a list of glob patterns"),
        ),
        "Files that the tests see, as gitignore patterns; every file that is not ignored by default.",
        default=(),
    )


TESTS: Final = Record(noun="a mapping with `command`", keys=keys_of(TestsConfig) | keys_of(ContainerLimits))


def tests_config(checked: CheckedTree) -> TestsConfig | None:
    """Make ``tests``; None if there are none."""
    if checked.has("tests") and not checked.has("image"):
        checked.fault(
            "`tests` needs `image`",
            "tests",
            why="tests run in the image that is built; a job's own environment is taken as it is",
            remedy="add `image: {base: …}`, or delete `tests`",
        )
    found = checked.values.get("tests")
    if not isinstance(found, dict):
        return None
    tests = make(TestsConfig, found, limits=make(ContainerLimits, found))
    if isinstance(command := find(checked.tree, "tests", "command"), ScalarNode):
        # Reports and closing lines show what fails before a pipe.
        check_tests(command, checked.directory / tests.workdir, checked.faults)
        remark_lost(command, checked.faults, shell=" ".join(tests.shell), pipes=tests.evidence == "exit-code")
    return tests
