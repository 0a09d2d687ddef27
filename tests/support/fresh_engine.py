"""``python -m tests.support.fresh_engine [PYTEST'S ARGUMENTS]``: run tests as on a machine whose engine has started once, and has nothing.

The engine's data root is new, and so are its network, its firewall and ``/run``: no service runs, no port is taken, no image and no build cache is
there, and what an engine learns at its second start it does not know yet. The bootstrap makes it ready, as it does on a user's machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from tests.integration.image.disposable_engine import disposable_engine, missing

_DISK: Final = 60 << 30
"""Bytes; the file is sparse, and takes what the engine has written."""


def main(arguments: Sequence[str]) -> int:
    """Make the engine and the machine ready, run pytest with *arguments*; return the exit status of the first that failed."""
    if (why := missing(connected=True)) is not None:
        print(f"there can be no fresh engine here: {why}", file=sys.stderr)
        return 2
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    with disposable_engine(disk=_DISK, connected=True) as engine:
        for command in (["scripts.bootstrap", "--for", "services"], ["pytest", *arguments]):
            done = subprocess.run(engine.inside([sys.executable, "-m", *command]), env=environment, check=False)
            if done.returncode:
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
