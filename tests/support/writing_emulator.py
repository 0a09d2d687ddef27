"""The emulator with an executor whose jobs write logs as their commands say, one line of it after the other, and nothing else.

=====================================  ============================================================================
``say PATH TEXT``                      appends a line to a log
``fill PATHS BYTES SECONDS WIDTH``     appends so many bytes to each of several logs (``a,b``) within that time, in lines of WIDTH
                                       characters; 0 for one line without an end
``anew PATH``                          removes a log, as a job does that begins again
``await TAG``                          goes on when the run has that tag
``exit CODE``                          ends the job; without it, it completes
=====================================  ============================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from aml_emulator.context import Context
from aml_emulator.executor.spec import Ending, ExecutorSettings, RunError, RunSink, RunSpec, SinkFor
from tests.support.instant_emulator import InstantRunner, serve_with

BLOCK = 2 * 1024 * 1024


class WritingRunner(InstantRunner):
    """Executes scripts that write logs."""

    _ended = False

    def close(self) -> None:
        """End; nothing is waited for any more."""
        self._ended = True
        super().close()

    def _run(self, spec: RunSpec, sink: RunSink) -> tuple[Ending, RunError | None]:
        for word in ("Preparing", "Running"):
            sink.status(word)
        for line in spec.command.splitlines():
            word, _, rest = line.strip().partition(" ")
            match word:
                case "":
                    continue
                case "say":
                    path, _, text = rest.partition(" ")
                    self._append(spec, sink, path, f"{text}\n".encode())
                case "fill":
                    paths, size, seconds, width = rest.split(" ")
                    self._fill(spec, sink, paths.split(","), int(size), float(seconds), int(width))
                case "anew":
                    self._services.blobs.delete_prefix(spec.artifacts.container, spec.artifacts.name_of(rest))
                    # Times of creation are seconds, and no job begins again within one.
                    time.sleep(1.05 - time.time() % 1)
                case "await":
                    while rest not in self._services.store.runs.require(spec.run_id).tags and not self._ended:
                        time.sleep(0.02)
                case "exit":
                    message = f"Execution failed. The job's command exited with status code {rest}."
                    return "Failed", RunError(code="UserError", message=message, exit_code=int(rest))
                case _:
                    raise ValueError(f"'{word}' is no word of a script")
        sink.status("Finalizing")
        return "Completed", None

    def _append(self, spec: RunSpec, sink: RunSink, path: str, data: bytes) -> None:
        self._services.blobs.append(spec.artifacts.container, spec.artifacts.name_of(path), data)
        sink.log(path)

    def _fill(self, spec: RunSpec, sink: RunSink, paths: list[str], size: int, seconds: float, width: int) -> None:
        began, done = time.monotonic(), 0
        for block in filling(size, width):
            if self._ended:
                return
            for path in paths:
                self._append(spec, sink, path, block)
            done += len(block)
            # The rest of the time belongs to the rest of the blocks.
            time.sleep(max(0.0, began + seconds * done / size - time.monotonic()))


def filling(size: int, width: int) -> Iterator[bytes]:
    """Yield *size* bytes in blocks; see ``fill``."""
    line = (b"0123456789" * (width // 10 + 1))[: width - 1] + b"\n" if width else b"0123456789"
    pattern = line * (BLOCK // len(line) + 2)
    for at in range(0, size, BLOCK):
        start = at % len(line)
        yield pattern[start : start + min(BLOCK, size - at)]


def write_at_once(services: Context, _settings: ExecutorSettings, sink_for: SinkFor) -> WritingRunner:
    """Return what executes jobs: see `aml_emulator.workspaces.MakeRunner`."""
    return WritingRunner(services, sink_for)


def main() -> None:
    """Serve, as ``aml-emulator`` does."""
    serve_with(write_at_once)


if __name__ == "__main__":
    main()
