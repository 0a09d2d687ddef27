"""``python -m aml_train_action [post]``: the entry points of the action's image."""

from __future__ import annotations

import os
import signal
import sys


def _end(_number: int, _frame: object) -> None:
    os.write(2, b"aml-train: interrupted\n")
    os._exit(7)


def run(argv: list[str]) -> None:
    """Do the step, or what comes after it; end the process."""
    # Nothing guards the imports. The process that has started this one has blocked the signal meanwhile.
    signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    from aml_train_action.inputs.confidential import read_environment

    # Before anything else is imported: it may start the process again.
    environ = read_environment(os.environ, sys.orig_argv)
    from aml_train.core.threads import exit_process

    if argv == ["post"]:
        from aml_train_action.post import post as act
    else:
        from aml_train_action.main import main as act
    # Under -u the interpreter's own stream has no buffer, and would write only part of what a full pipe does not take.
    with open(sys.stdout.fileno(), "wb", closefd=False) as stdout:
        code = act(environ, stdout)
    exit_process(code)


if __name__ == "__main__":
    run(sys.argv[1:])
