"""The command ``aml-train``: what runs before anything is imported."""

from __future__ import annotations

import os
import signal


def _end(_number: int, _frame: object) -> None:
    os.write(2, b"aml-train: interrupted\n")
    os._exit(7)


def main() -> None:
    """Run the command line and end the process."""
    if callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, _end)  # nothing guards the imports
    from aml_train.cli.process import run_command_line
    from aml_train.core.threads import exit_process

    exit_process(run_command_line())


if __name__ == "__main__":
    main()
