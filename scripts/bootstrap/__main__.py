"""``python3 -m scripts.bootstrap [--for demo|tests|…]``: set up this machine."""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if sys.version_info < (3, 11):  # noqa: UP036  the machine's own Python may be older than the project's
    sys.exit(
        f"Python {platform.python_version()} is too old; aml-train needs 3.11 or later: make PYTHON=python3.12 …"
    )

from scripts.bootstrap import environment  # noqa: E402
from scripts.bootstrap.commands import BootstrapError, Shell  # noqa: E402
from scripts.bootstrap.needs import PROFILES, Machine  # noqa: E402
from scripts.bootstrap.probes import probe_host  # noqa: E402


def main() -> int:
    """Set up the machine; return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="scripts.bootstrap", description="Set up this machine for aml-train.")
    parser.add_argument(
        "--for", dest="profile", choices=sorted(PROFILES), default="demo", help="the purpose to set it up for"
    )
    profile = parser.parse_args().profile
    begin = time.monotonic()
    # dockerd, debootstrap and iptables live where the PATH of a plain user, and of `su`, does not lead.
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    state = ROOT / ".aml-train"
    state.mkdir(exist_ok=True)
    shell = Shell(root=ROOT, log=state / "bootstrap.log", say=lambda line: print(line, flush=True))
    machine = Machine(shell, probe_host())
    with (state / "bootstrap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            steps = sum(machine.satisfy(need) for need in PROFILES[profile])
        except BootstrapError as error:
            print(f"bootstrap: {error}", file=sys.stderr)
            return 1
        environment.compile_packages(ROOT)
    if steps:
        print(f"==> ready for {profile} after {time.monotonic() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
