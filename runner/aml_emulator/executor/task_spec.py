"""The steps of a run of ACR Tasks, as values."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from aml_emulator.reading import read_yaml

VERSIONS: Final = ("1.0-preview-1", "v1.0.0", "v1.1.0")
"""Versions of a task file (Azure/acr-builder, ``graph/task.go``: ``validTaskVersions``)."""
STEP_SECONDS: Final = 600
BUILDKIT: Final = "DOCKER_BUILDKIT=1"
_KNOWN: Final = frozenset({"id", "build", "push", "env", "timeout", "when"})
_TASK: Final = frozenset({"version", "stepTimeout", "steps"})
_BRACES: Final = '{{"{{"}}'


class TaskError(ValueError):
    """A task file that the service refuses."""


class UnsupportedTaskError(TaskError):
    """A task file with something that is not supported here; the message names it."""


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """``build``: one image.

    Attributes:
        context: a folder of the source.
        dockerfile: a path in the source.
        network: empty for the engine's default, or ``none``.
        shm: bytes of ``/dev/shm``; 0 for the engine's default.
        limits: name of a limit → its soft and hard bound, -1 for none.
    """

    id: str
    context: str
    dockerfile: str
    tags: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    platform: str = ""
    network: str = ""
    no_cache: bool = False
    shm: int = 0
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    timeout: int = STEP_SECONDS


@dataclass(frozen=True, kw_only=True)
class PushStep:
    """``push``: images that were built."""

    id: str
    images: tuple[str, ...]
    timeout: int = STEP_SECONDS


Step = BuildStep | PushStep


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A run.

    Attributes:
        steps: one after the other.
        source: blob of the uploaded source; empty for none.
        timeout: seconds of the whole run.
        logins: registry → user and password, for what is pulled.
    """

    id: str
    steps: tuple[Step, ...]
    source: str
    timeout: int
    logins: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)


class _Words(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UnsupportedTaskError(f"options of `docker build`: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Words(prog="build", add_help=False, allow_abbrev=False)
    parser.add_argument("--tag", "-t", action="append", default=[])
    parser.add_argument("--file", "-f", default="Dockerfile")
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("--target", default="")
    parser.add_argument("--platform", default="")
    parser.add_argument("--network", default="", choices=["", "none", "default"])
    parser.add_argument("--progress", default="plain")
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--shm-size", type=int, default=0)
    parser.add_argument("--ulimit", action="append", default=[], type=_limit)
    parser.add_argument("context")
    return parser


def parse_task(text: str) -> tuple[Step, ...]:
    """Return the steps of a task file. Pure.

    Raises:
        TaskError: it is no task.
        UnsupportedTaskError: it has something that is not supported here.
    """
    parts = text.split(_BRACES)
    if any("{{" in part for part in parts):
        raise UnsupportedTaskError("templates in a task file")
    try:
        task = read_yaml("{{".join(parts))
    except ValueError as error:
        raise TaskError(f"the task file is no YAML: {error}") from error
    if not isinstance(task, dict) or not isinstance(task.get("steps"), list) or not task["steps"]:
        raise TaskError("the task file has no steps")
    _refuse(task, _TASK, "a task file")
    if str(task.get("version", VERSIONS[1])) not in VERSIONS:
        raise TaskError(f"invalid task version: {task['version']}")
    timeout = _whole(task.get("stepTimeout"), STEP_SECONDS)
    return tuple(_step(step, f"acb_step_{number}", timeout) for number, step in enumerate(task["steps"]))


def _step(step: Any, name: str, timeout: int) -> Step:
    if not isinstance(step, dict):
        raise TaskError("a step is no mapping")
    _refuse(step, _KNOWN, "a step")
    name, timeout = str(step.get("id", name)), _whole(step.get("timeout"), timeout)
    if not name or any(character.isspace() for character in name):
        raise TaskError("step ID cannot contain spaces")
    if ("build" in step) == ("push" in step):
        raise TaskError("step must only contain a single build, cmd, or push property")
    if "push" in step:
        return PushStep(id=name, images=tuple(_texts(step["push"], "push")), timeout=timeout)
    environment = _texts(step.get("env", []), "env")
    if unknown := [one for one in environment if one != BUILDKIT]:
        raise UnsupportedTaskError(f"the variable {unknown[0].partition('=')[0]} of a step")
    build = parse_build(str(step["build"]), name=name, timeout=timeout)
    if BUILDKIT not in environment:
        raise UnsupportedTaskError("a build without BuildKit")
    return build


def parse_build(words: str, *, name: str, timeout: int) -> BuildStep:
    """Return the step of the words after ``docker build``. Pure.

    Raises:
        TaskError: they are not such words, or not supported here.
    """
    try:
        given = _parser().parse_args(shlex.split(words))
    except TaskError:
        raise
    except ValueError as error:
        raise TaskError(str(error)) from error
    return BuildStep(
        id=name,
        context=given.context.strip("/").removeprefix("./") if given.context != "." else "",
        dockerfile=given.file,
        tags=tuple(given.tag),
        arguments=dict(_pair(one) for one in given.build_arg),
        target=given.target,
        platform=given.platform,
        network="none" if given.network == "none" else "",
        no_cache=given.no_cache,
        shm=given.shm_size,
        limits=dict(given.ulimit),
        timeout=timeout,
    )


def _limit(text: str) -> tuple[str, tuple[int, int]]:
    """Return the name and the bounds of ``NAME=SOFT[:HARD]``."""
    name, _, bounds = text.partition("=")
    soft, _, hard = bounds.partition(":")
    return name, (int(soft), int(hard or soft))


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _refuse(given: Mapping[Any, Any], known: frozenset[str], what: str) -> None:
    if unknown := sorted(str(key) for key in given if key not in known):
        raise UnsupportedTaskError(f"`{unknown[0]}` in {what}")


def _whole(value: Any, default: int) -> int:
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise TaskError(f"a time-out is a whole number of seconds, not {value!r}")
    return value or default


def _texts(value: Any, name: str) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TaskError(f"`{name}` is a list of texts")
    return value
