"""Options of commands that run something, and what they share."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from aml_train.cli.console import ConsoleListener
from aml_train.cli.output import json_option, masker, print_result, result_text
from aml_train.cli.project import Command, ProjectOptions, gather
from aml_train.core.events import RunFinished, to_json
from aml_train.core.http_client import logged_requests
from aml_train.core.masked_events import masked_listener
from aml_train.core.masking import MASK, without_tokens
from aml_train.core.streams import lasting_output, unmasked
from aml_train.pipeline.data import with_data
from aml_train.pipeline.execute import json_listener, run_prepared
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.plan_values import plan_facts, render_plan
from aml_train.pipeline.prepare import PreparedRun, prepare_run, with_packages
from aml_train.pipeline.run_files import own_output
from aml_train.pipeline.target import Host
from aml_train.pipeline.target import open_workspace as target_workspace
from aml_train.report.gate_junit import gate_junit_listener

if TYPE_CHECKING:
    from aml_train.azure.sdk_v2 import AzureV2
    from aml_train.config.model import Config
    from aml_train.config.sections.targets import TargetConfig
    from aml_train.core.events import Event, Listener
    from aml_train.pipeline.result import RunOptions


def this_host(environ: Mapping[str, str] | None = None) -> Host:
    """Return this process, with another *environ* if it is given.

    Tokens, and the secrets of jobs that are read, are masked from then on.
    """
    known = masker()

    def hide(secret: str) -> None:
        # Azure's tokens are masked by their shape; the encodings of one take 10 ms.
        if without_tokens(secret) != MASK:
            known.add(secret)

    return Host(environ=dict(os.environ if environ is None else environ), on_token=hide)


def place_of(project: ProjectOptions) -> tuple[Host, TargetConfig, Path, Listener]:
    """Return what opens a workspace: this process, the target, the project folder, and what shows the progress."""
    targets = project.targets()
    return this_host(), targets.named(project.target), targets.directory, ConsoleListener(sys.stderr)


def open_workspace(project: ProjectOptions) -> AzureV2:
    """Return the target's workspace; the local AzureML is started if it does not run."""
    return target_workspace(*place_of(project)).service


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How a run is shown: on the console, as a result, and as events in a file.

    Attributes:
        as_json: print the result on standard output, and the run on standard error.
        events: the file that gets every event.
    """

    as_json: bool
    events: Path | None
    verbose: int
    quiet: bool

    @contextlib.contextmanager
    def listener(self, gate_junit: Path | None = None) -> Iterator[Listener]:
        """Give the listener that shows a run; *gate_junit* as for :meth:`execute`."""
        if self.verbose and self.quiet:
            raise click.UsageError("--verbose and --quiet exclude each other.")
        console = ConsoleListener(
            lasting_output(sys.stderr if self.as_json else sys.stdout, sys.stderr),
            verbosity="quiet" if self.quiet else "verbose" if self.verbose else "normal",
        )
        results = [result_listener(lasting_output(unmasked(sys.stdout), sys.stderr))] if self.as_json else []
        reports = gate_junit_listener(gate_junit)
        with json_listener(self.events) as recorders, contextlib.closing(console):
            yield masked_listener(masker(), console, *recorders, *results, *reports)

    def execute(
        self,
        config: Config,
        options: Callable[[PreparedRun], RunOptions],
        *,
        gate_junit: Path | None = None,
        dry_run: bool = False,
        image: bool = True,
        proposed: bool = False,
    ) -> None:
        """Plan a run, and execute and show it; the process ends with its exit code. A dry run prints the plan.

        Args:
            config: what to run.
            options: returns how, of the plan.
            gate_junit: the file that gets a JUnit report of the gate.
            dry_run: change nothing.
            image: whether the image matters; it does not to attach to a job by its name.
            proposed: the commit is only proposed, whatever its branch.
        """
        host = this_host()
        prepared = prepare_run(config, host, own=own_output(self.events, gate_junit), image=image, proposed=proposed)
        if dry_run:
            print_plan(prepared, as_json=self.as_json)
            return
        with self.listener(gate_junit) as listener:
            ended = run_prepared(prepared, options(prepared), listeners=(listener,), masker=masker())
        sys.exit(ended.exit_code)


def print_plan(prepared: PreparedRun, *, as_json: bool) -> Plan:
    """Print what a run would do, as text or as JSON; return it."""
    plan = with_data(with_packages(prepared)).plan
    if as_json:
        print_result(plan_facts(plan))
    else:
        click.echo(render_plan(plan))
    return plan


def result_listener(output: TextIO) -> Listener:
    """Return a listener that writes the end of a run to *output*, as JSON."""

    def write(event: Event) -> None:
        if isinstance(event, RunFinished):
            end = json.loads(to_json(event))
            kept = {name: end[name] for name in ("status", "exit_code", "message", "hint")}
            output.write(result_text({**kept, **end["facts"]}) + "\n")
            output.flush()

    return write


def _log_requests(context: click.Context, _option: click.Parameter, level: int) -> int:
    """Show the requests of the whole command with ``-vv``."""
    if level > 1:
        context.with_resource(logged_requests(lambda line: click.echo(line, err=True)))
    return level


def output_options(command: Command) -> Command:
    """Add the options of how a run is shown."""
    options = {
        "as_json": json_option(),
        "events": click.option(
            "--events",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write every event into a file, as a line of JSON.",
        ),
        "verbose": click.option(
            "-v",
            "--verbose",
            count=True,
            callback=_log_requests,
            help="Show the build's output on a terminal, even if it succeeds; -vv also shows each request to Azure and registries.",
        ),
        "quiet": click.option("-q", "--quiet", is_flag=True, help="Show warnings and the result only."),
    }
    return gather(command, "output", OutputOptions, options)


#: Options that several commands have.
gate_junit: Final = click.option(
    "--gate-junit",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a JUnit report in which each rule of the gate is a test case.",
)
force_build: Final = click.option(
    "--force-build", is_flag=True, help="Build and test the image again, even if it is in the registry."
)
keep_tests: Final = click.option(
    "--keep-tests", is_flag=True, help="Run the tests in any case, and keep their container."
)
no_register: Final = click.option(
    "--no-register", is_flag=True, help="Decide the gate, but register no model, as for a pull request."
)
most: Final = click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=20, help="List at most this many; 0 for all.  [default: 20]"
)
shown_metrics: Final = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric; may be repeated.  [default: all]"
)
model_address: Final = click.argument("address", metavar="MODEL[:VERSION|@STAGE]")


def tag_filter(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the tags of a repeated option ``KEY[=VALUE]``; None for any value."""
    pairs = (text.partition("=") for text in texts)
    return {key: value if sign else None for key, sign, value in pairs}
