"""The instant emulator, for the recording's two jobs: shell commands that it reads as scripts of its own words."""

from __future__ import annotations

from dataclasses import replace

from aml_emulator.context import Context
from aml_emulator.executor.spec import Ending, ExecutorSettings, RunError, RunSink, RunSpec, SinkFor
from tests.support.instant_emulator import InstantRunner, serve_with

SCRIPTS = {
    "echo parity says hello": "say parity says hello\nwrite outputs/parity.txt parity\n",
    "echo parity waits": "say parity waits\nwait for-ever\n",
}
"""The first words of a command → what is done."""


class ParityRunner(InstantRunner):
    """Runs the commands of :data:`SCRIPTS`, and no others."""

    def _run(self, spec: RunSpec, sink: RunSink) -> tuple[Ending, RunError | None]:
        first = spec.command.partition(" &&")[0].strip()
        return super()._run(replace(spec, command=SCRIPTS[first]), sink)


def run_parity(services: Context, _settings: ExecutorSettings, sink_for: SinkFor) -> InstantRunner:
    """Return what executes jobs: see `aml_emulator.workspaces.MakeRunner`."""
    return ParityRunner(services, sink_for)


if __name__ == "__main__":
    serve_with(run_parity)
