"""Samples what the containers of a run use, while they run.

Each running job has a thread, which queries the engine once a second at first and every 15 seconds after a quarter of an hour.
Whatever fails in it is logged and changes nothing for the job.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol

from aml_emulator.executor.engine_words import EngineFault, fault_text
from aml_emulator.executor.spec import RunSink, RunSpec
from aml_emulator.executor.usage import Reading, cores_of

logger = logging.getLogger(__name__)

FIRST: Final = 0.3
"""Seconds to the first sample: short jobs have one, too."""

SHORTEST: Final = 1.0
LONGEST: Final = 15.0
"""Azure aggregates in one-minute intervals: four samples of each."""

SHARE: Final = 60.0
"""So many samples are taken in the time that a job has run, until the longest interval."""

WITH_GPUS: Final = 5.0
"""The shortest interval where nvidia-smi runs, which costs a process each time."""


class Sampled(Protocol):
    """The part of `aml_emulator.executor.engine.Engine` that the monitor uses."""

    def reading(self, container_id: str, *, node: int, cores: float | None) -> Reading | None:
        """Return what a container uses, None if it does not run."""

    def has_gpus(self) -> bool:
        """Return whether containers see GPUs."""


def interval(elapsed: float, *, gpus: bool) -> float:
    """Return the seconds to the next sample, *elapsed* seconds after the start."""
    return min(LONGEST, max(WITH_GPUS if gpus else SHORTEST, elapsed / SHARE))


class Monitor:
    """Samples containers from :meth:`start` to :meth:`stop`.

    Args:
        ids: the containers in the order of the nodes.
    """

    def __init__(self, spec: RunSpec, engine: Sampled, ids: Sequence[str], sink: RunSink) -> None:
        self._spec = spec
        self._engine = engine
        self._ids = tuple(ids)
        self._sink = sink
        self._cores = cores_of(spec.host_options)
        self._ended = threading.Event()
        self._warned = False

    def start(self) -> None:
        """Begin to sample, in a separate thread."""
        threading.Thread(target=self._run, name=f"monitor-{self._spec.run_id}", daemon=True).start()

    def stop(self) -> None:
        """Sample no more; return at once."""
        self._ended.set()

    def sample(self) -> None:
        """Report a reading of each container that runs. Raises nothing."""
        for node, container_id in enumerate(self._ids):
            try:
                reading = self._engine.reading(container_id, node=node, cores=self._cores)
                if reading is not None and not self._ended.is_set():
                    self._sink.usage(reading)
            except EngineFault as error:
                self._failed(fault_text(error))
            except Exception as error:  # noqa: BLE001 - what is measured never affects the job
                self._failed(f"{type(error).__name__}: {error}")

    def _run(self) -> None:
        begun, pause = time.monotonic(), FIRST
        while not self._ended.wait(pause):
            self.sample()
            pause = interval(time.monotonic() - begun, gpus=self._gpus())

    def _gpus(self) -> bool:
        try:
            return self._engine.has_gpus()
        except EngineFault as error:
            self._failed(fault_text(error))
            return False

    def _failed(self, why: str) -> None:
        """Log the first failure of a run; at its end a container is often gone already."""
        if not self._warned and not self._ended.is_set():
            self._warned = True
            logger.warning("Run %s: its use of the machine could not be sampled: %s", self._spec.run_id, why)
