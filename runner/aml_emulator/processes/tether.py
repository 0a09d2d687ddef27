"""Runs a command that ends with the process that started it, however that ends.

``python tether.py PARENT COMMAND...`` becomes the command. On Linux the kernel sends it SIGTERM at its parent's death
(prctl(2), PR_SET_PDEATHSIG), which a parent that is killed cannot do; elsewhere it has to be ended by hand then.
It is run as a separate file, without the package around it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Become the command ``argv[1:]``, tied to the process ``argv[0]``."""
    parent, *command = argv
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != int(parent):
            sys.exit("the process that started this one has ended")
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
