"""The command ``aml-emulator``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from aml_emulator import settings as settings_module
from aml_emulator.processes.host import StartError
from aml_emulator.server import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code.

    Args:
        argv: without the program's name; the process's own if None.
    """
    settings = settings_module.parse(sys.argv[1:] if argv is None else argv, os.environ)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    for noisy in ("azure", "urllib3", "docker", "asyncio", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

    try:
        run(settings)
    except StartError as error:
        sys.stderr.write(f"aml-emulator: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
