"""Keeps the runner's secrets out of the environment of all other processes.

``/proc/PID/environ`` shows the environment that a process was started with, to each process that may read its memory: of process 1, which the
action's is, also to what the process opens by that name. So the first thing that the process does is to start itself again without
those variables. The values are passed in a file without a name, which is closed as soon as it is read: no process that is
started later has access to it, and neither the environment nor a folder holds the values.

Source: https://man7.org/linux/man-pages/man5/proc_pid_environ.5.html, https://man7.org/linux/man-pages/man2/memfd_create.2.html.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from typing import BinaryIO, Final

from aml_train.core.secrets import named_secret

#: The number of the file with the values.
HANDED_OVER: Final = "AML_TRAIN_HANDED_OVER"
#: The runner's tokens and their addresses, inputs, the workflow's token; act hands over inputs under their bare names as well.
#: https://docs.github.com/actions/reference/workflows-and-actions/variables, and actions/runner, ``ContainerActionHandler.cs``.
_OF_THE_RUNNER: Final = re.compile(
    r"INPUT_.*|ACTIONS_.*|(?:GITHUB|GH)_(?:ENTERPRISE_)?TOKEN|GITHUB_PAT|client-secret|creds", re.S
)


def of_the_runner(name: str) -> bool:
    """Return whether only the action may have a variable of this name."""
    return bool(_OF_THE_RUNNER.fullmatch(name))


def for_the_pipeline(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* without the variables that only the action may have."""
    return {name: value for name, value in environ.items() if not of_the_runner(name)}


def hidden(name: str) -> bool:
    """Return whether the process's environment must not hold this variable."""
    return of_the_runner(name) or named_secret(name)


def read_environment(environ: MutableMapping[str, str], argv: list[str]) -> dict[str, str]:
    """Return the step's environment; restart the process to hide secrets in it.

    Args:
        environ: the process's environment; the secrets are not added to it.
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
        # A signal waits until the new interpreter can handle it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # The same program, without a shell.
            os.execve(sys.executable, argv, {**environ, HANDED_OVER: str(file.fileno())})  # noqa: S606
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _received(number: int) -> dict[str, str]:
    with os.fdopen(number, "rb") as file:
        values: dict[str, str] = json.load(file)
    return values


def _nameless() -> BinaryIO:
    """Return a file in memory, or on the disk without a name."""
    try:
        return os.fdopen(os.memfd_create("environment"), "w+b")
    except (AttributeError, OSError):
        return tempfile.TemporaryFile()
