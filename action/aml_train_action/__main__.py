"""``python -m aml_train_action [post]``: the entry points of the action's image."""

from __future__ import annotations

import os
import sys

from aml_train.background import leave
from aml_train_action.main import main


def run(argv: list[str]) -> None:
    """Do the step, or what comes after it; end the process."""
    act = main
    if argv == ["post"]:
        from aml_train_action.post import post

        act = post
    # Under -u the interpreter's own stream has no buffer, and would write only part of what a full pipe does not take.
    with open(sys.stdout.fileno(), "wb", closefd=False) as stdout:
        code = act(dict(os.environ), stdout)
    leave(code)


if __name__ == "__main__":
    run(sys.argv[1:])
