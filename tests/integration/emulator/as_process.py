"""An emulator as a program of its own, as ``aml-emulator`` is, with another executor of jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from aml_emulator import settings as settings_module
from aml_emulator.server import MakeRunner, serve


def serve_with(make_runner: MakeRunner) -> None:
    """Serve until the process is told to end; *make_runner* makes what executes jobs."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    for noisy in ("azure", "urllib3", "docker", "asyncio", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    asyncio.run(serve(settings_module.parse(sys.argv[1:], os.environ), make_runner=make_runner))
