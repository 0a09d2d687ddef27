"""``python -m aml_train_action``: the entry point of the action's image."""

from __future__ import annotations

import os
import sys

from aml_train_action.main import main

if __name__ == "__main__":
    # Under -u the interpreter's own stream has no buffer, and would write only part of what a full pipe does not take.
    with open(sys.stdout.fileno(), "wb", closefd=False) as stdout:
        code = main(dict(os.environ), stdout)
    sys.exit(code)
