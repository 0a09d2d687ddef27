"""What the runner hands over in confidence, and how it is kept out of everything below the action.

``/proc/PID/environ`` shows the environment that a process was started with, to each process that may read its memory: of process 1, which the
action's is, also to what the process opens by that name. So the first thing that the process does is to start itself again without
those variables. Their values are handed over by a file without a name, which is closed as soon as it is read: no process that is
started later has it, and neither the environment nor a folder holds them.

Source: https://man7.org/linux/man-pages/man5/proc_pid_environ.5.html, https://man7.org/linux/man-pages/man2/memfd_create.2.html.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from typing import BinaryIO, Final

#: The number of the file that the values are in.
HANDED_OVER: Final = "AML_TRAIN_HANDED_OVER"
#: The runner's tokens and their addresses, inputs, the workflow's token; act hands over inputs under their bare names as well.
#: https://docs.github.com/actions/reference/workflows-and-actions/variables, and actions/runner, ``ContainerActionHandler.cs``.
_OF_THE_RUNNER: Final = re.compile(
    r"INPUT_.*|ACTIONS_.*|(?:GITHUB|GH)_(?:ENTERPRISE_)?TOKEN|GITHUB_PAT|client-secret|creds|azure_credentials", re.S
)


def of_the_runner(name: str) -> bool:
    """Tell whether a variable is the action's alone: nothing below it gets one of this name."""
    return bool(_OF_THE_RUNNER.fullmatch(name))


def for_the_pipeline(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* as the pipeline may see it: without what is the action's alone."""
    return {name: value for name, value in environ.items() if not of_the_runner(name)}


def hidden(name: str) -> bool:
    """Tell whether the environment of the process must not hold this variable: the runner's, and secrets of the workflow."""
    from aml_train.core.secrets import named_secret

    return of_the_runner(name) or named_secret(name)


def read_environment(environ: MutableMapping[str, str], argv: list[str]) -> dict[str, str]:
    """Return the whole environment of the step; start the process again if its own holds what is to be hidden.

    Args:
        environ: the process's environment. What was handed over is not put into it.
        argv: the command line that starts the process.
    """
    secret = {name: value for name, value in environ.items() if hidden(name)}
    number = environ.pop(HANDED_OVER, None)
    if secret:
        _start_again({name: value for name, value in environ.items() if name not in secret}, secret, argv)
    return {**environ, **(_received(int(number)) if number else {})}


def _start_again(environ: Mapping[str, str], secret: Mapping[str, str], argv: list[str]) -> None:
    with _nameless() as file:
        file.write(json.dumps(secret).encode())
        file.flush()
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        # Itself, and no shell.
        os.execve(sys.executable, argv, {**environ, HANDED_OVER: str(file.fileno())})  # noqa: S606


def _received(number: int) -> dict[str, str]:
    with os.fdopen(number, "rb") as file:
        values: dict[str, str] = json.load(file)
    return values


def _nameless() -> BinaryIO:
    """Return a file in memory; on a system without them, one on the disk that no folder has."""
    try:
        return os.fdopen(os.memfd_create("environment"), "w+b")
    except (AttributeError, OSError):
        return tempfile.TemporaryFile()
