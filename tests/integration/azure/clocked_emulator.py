"""The emulator on a clock of the tests': the seconds since the epoch are a number in a file (AML_TEST_CLOCK).

Azurite, its child, is a process of Node.js: :data:`PRELOAD` gives it the same clock, for it alone checks signed addresses.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

CLOCK = "AML_TEST_CLOCK"

PRELOAD = f"""\
const fs = require("fs");
const file = fs.openSync(process.env.{CLOCK}, "r");
const held = Buffer.alloc(8);
const now = () => (fs.readSync(file, held, 0, 8, 0), Math.floor(held.readDoubleLE(0) * 1000));
const Real = Date;
globalThis.Date = class extends Real {{
  constructor(...given) {{ given.length ? super(...given) : super(now()); }}
  static now() {{ return now(); }}
}};
"""


def write_clock(file: Path, seconds: float) -> None:
    """Set the clock."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(struct.pack("<d", seconds))


def read_clock(file: Path) -> Callable[[], float]:
    """Return what reads the clock."""
    descriptor = os.open(file, os.O_RDONLY)

    def now() -> float:
        seconds: float = struct.unpack("<d", os.pread(descriptor, 8, 0))[0]
        return seconds

    return now


def main() -> None:
    """Serve, as ``aml-emulator`` does."""
    from aml_emulator import settings
    from aml_emulator.serving import run

    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger("aml_emulator.api.app").setLevel(logging.DEBUG)
    for noisy in ("azure", "urllib3", "docker", "asyncio", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    run(settings.parse(sys.argv[1:], os.environ), clock=read_clock(Path(os.environ[CLOCK])))


if __name__ == "__main__":
    main()
