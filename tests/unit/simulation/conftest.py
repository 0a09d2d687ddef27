"""The simulation's kernel knows the threads of Python 3.11 and 3.12."""

from __future__ import annotations

from simulation.kernel.install import SUPPORTED

collect_ignore_glob = [] if SUPPORTED else ["test_*.py"]
