"""The commands ``aml-train jobs …``: what runs and ran in a workspace."""

from __future__ import annotations

import fnmatch
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from aml_train import resume_check
from aml_train.api.workspace import Workspace
from aml_train.azure.blob.operations import job_files
from aml_train.azure.browse import describe_job, view_job
from aml_train.cli.console import ConsoleListener
from aml_train.cli.data import moved, open_data
from aml_train.cli.emulator import ask_emulator
from aml_train.cli.noise import noise
from aml_train.cli.options import most, open_workspace, shown_metrics, tag_filter, this_host
from aml_train.cli.output import (
    json_option,
    masker,
    print_facts,
    print_lines,
    print_result,
    print_result_line,
    terminal_width,
)
from aml_train.cli.project import ProjectOptions, project_options, target_options
from aml_train.cli.tables import fitted_table, logged_tables, metric_cell
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Notice
from aml_train.core.masked_events import masked, masked_listener
from aml_train.core.text import duration, printable, printable_lines
from aml_train.gate.history import series_of
from aml_train.jobs.live import await_end, request_cancel
from aml_train.jobs.logs.follow import LogFollower, LogReader, log_addresses
from aml_train.jobs.logs.names import log_name
from aml_train.jobs.metrics import tables_of_job
from aml_train.jobs.states import JobStatus, failure_of
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.run_files import own_output
from aml_train.report.series import plot

if TYPE_CHECKING:
    from aml_train.azure.browse import JobRow
    from aml_train.azure.sdk_v2 import AzureV2
    from aml_train.core.events import Event, LogLines

_FOLLOW_PAUSE: Final = 0.5


@click.group()
def jobs() -> None:
    """List, show, follow, cancel, resubmit and download jobs; check resuming, measure noise.

    \b
    aml-train jobs list --status running
    aml-train jobs logs -f JOB
    aml-train jobs download JOB 'outputs/**/*.pt' -o models
    """


jobs.add_command(noise)


@jobs.command("list")
@target_options
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([status.value for status in JobStatus], case_sensitive=False),
    metavar="STATUS",
    help="Only jobs in this state, such as running; may be repeated.",
)
@click.option("--experiment", metavar="NAME", help="Only jobs of this experiment.")
@click.option("--name", metavar="PATTERN", help="Only jobs of this name or display name; * and ? are wildcards.")
@click.option("--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="Only jobs with this tag; may be repeated.")
@click.option("--archived", is_flag=True, help="Include archived jobs.")
@most
@click.option(
    "--sort",
    "key",
    metavar="[KEY]",
    is_flag=False,
    flag_value="",
    default="created",
    help="Sort by created, duration or a metric, in descending order. Without KEY, by the one of --metric.  [default: created]",
)
@click.option("-r", "--reverse", is_flag=True, help="Sort in the other direction.")
@shown_metrics
@json_option(lines=True)
def list_(
    project: ProjectOptions,
    *,
    statuses: tuple[str, ...],
    experiment: str | None,
    name: str | None,
    tags: tuple[str, ...],
    archived: bool,
    lines: int,
    metrics: tuple[str, ...],
    key: str,
    reverse: bool,
    as_json: bool,
) -> None:
    """List jobs with their durations and metrics, the newest first.

    On a terminal, the table fits its width; in a pipe, nothing is cut.

    \b
    aml-train jobs list --experiment digits --sort val/accuracy
    aml-train jobs list --metric val/accuracy --sort
    aml-train jobs list --status completed --sort duration --reverse
    aml-train jobs list -n 0 --json | jq .name
    """
    if not key and len(metrics) != 1:
        raise click.UsageError("--sort without a key needs one --metric, which it sorts by.")
    rows = Workspace(service=open_workspace(project)).jobs(
        status=statuses,
        experiment=experiment,
        name=name,
        tags=tag_filter(tags),
        sort=key or metrics[0],
        reverse=reverse,
        limit=lines or None,
        archived=archived,
    )
    print_lines((f"note: {note}" for note in rows.notes), err=True)
    if as_json:
        for row in rows:
            print_result_line(row.facts())
        return
    print_lines(_table(rows, metrics, terminal_width()))


def _table(rows: Sequence[JobRow], metrics: Sequence[str] = (), width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table of jobs that fits *width*; the last columns give way."""
    head = ("NAME", "STATUS", "RAN", "CREATED", "METRICS", "EXPERIMENT", "COMPUTE", "TITLE")
    least = {"METRICS": 16, "EXPERIMENT": 10, "COMPUTE": 8, "TITLE": 12}
    cells = [
        (
            row.name,
            row.status.value,
            "" if row.seconds is None else duration(row.seconds),
            row.created[:16].replace("T", " "),
            metric_cell(row.metrics, metrics),
            row.experiment,
            row.compute,
            row.display_name if row.display_name != row.name else "",
        )
        for row in rows
    ]
    yield from fitted_table(head, cells, width, least=least, right="RAN")


@jobs.command("show")
@click.argument("job")
@target_options
@json_option()
def show(job: str, project: ProjectOptions, *, as_json: bool) -> None:
    """Show a job's settings, its state and its metrics."""
    service = open_workspace(project)
    facts = describe_job(service, job)
    found, more, remark = tables_of_job(service, job, facts.get("metrics", {}))
    tables = masked(list(found), masker().mask, masker().mask_name)
    if remark:
        click.echo(f"note: {printable(remark)}", err=True)
    if as_json and tables:
        facts |= {"tables": [one.facts() for one in tables], "more_tables": more}
    print_facts(facts, as_json=as_json)
    if not as_json:
        print_lines(logged_tables(tables, more))


@jobs.command("logs")
@click.argument("job")
@target_options
@click.option("-f", "--follow", is_flag=True, help="Follow until the job ends; the exit code is that of its end.")
@click.option("--file", "pattern", metavar="PATTERN", help="Only these logs, such as 'user_logs/std_log_process_0*'.")
def logs(job: str, project: ProjectOptions, *, follow: bool, pattern: str | None) -> None:
    """Print a job's logs: by default the output of its command.

    Ctrl-C leaves the job alone. With -f the exit code is 0 if the job completes, 5 if it fails, 7 if it is cancelled.
    """
    service = open_workspace(project)
    _print_logs(service, job, pattern or "user_logs/*", follow=follow)


def _remark(event: Event) -> None:
    if isinstance(event, Notice):
        click.echo(f"note: {printable(event.text)}", err=True)


def _print_logs(service: AzureV2, job: str, pattern: str, *, follow: bool) -> None:
    """Print the logs that *pattern* names; with *follow* until the end.

    Raises:
        AmlTrainError: what a followed job ended with.
    """
    view_job(service, job)  # also has the secrets among its variables masked
    shown: list[str] = []

    def say(text: LogLines) -> None:
        if shown[-1:] != [text.origin]:
            if several:
                click.echo(f"==> {text.origin} <==")
            shown[:] = [text.origin]
        click.echo(printable_lines(text.text), nl=not text.more)

    reader = LogReader(service, job, _remark)
    follower = LogFollower(reader, say, masker=masker())
    while True:
        view = service.details(job)
        names = sorted(
            (log_name(path) for path in view.log_files if fnmatch.fnmatchcase(path, pattern)),
            key=lambda name: name.order,
        )
        several = len(names) > 1
        ended = view.status.terminal
        found = tuple(log_addresses(names, view.log_files))
        reader.know(found)
        follower.follow(found, final=ended or not follow)
        if ended or not follow:
            break
        SYSTEM_CLOCK.sleep(_FOLLOW_PAUSE)
    if not names and not follow:
        known = ", ".join(sorted(view.log_files)) or "none yet"
        click.echo(f"note: no log is called {pattern}; there are: {known}", err=True)
    if (
        follow
        and (failure := failure_of(view.status, job=job, reason=view.error, tail="", codes=view.codes)) is not None
    ):
        raise failure


@jobs.command("cancel")
@click.argument("names", metavar="JOB...", nargs=-1, required=True)
@target_options
def cancel(names: tuple[str, ...], project: ProjectOptions) -> None:
    """Cancel jobs, and wait until they have ended; jobs that have ended stay as is."""
    service = open_workspace(project)
    before = {name: view_job(service, name).status for name in names}
    live = [name for name, status in before.items() if not status.terminal]
    for name in live:
        request_cancel(service, name, clock=SYSTEM_CLOCK)
    for name, status in before.items():
        if name not in live:
            click.echo(f"{name} had ended: {status.value}")
            continue
        view = await_end(service, name, clock=SYSTEM_CLOCK)
        if not view.status.terminal:
            raise ServiceError(
                f"AzureML acknowledged the cancellation, but the job {name} is still {view.status.value}."
            )
        click.echo(f"{name} is {view.status.value}")


@jobs.command("resubmit")
@click.argument("job")
@target_options
@click.option("--name", metavar="NAME", help="Name of the new job; by default the old one's with a random end.")
@click.option("-c", "--compute", metavar="NAME", help="Another compute.")
@click.option("-f", "--follow", is_flag=True, help="Print its log until it has ended.")
def resubmit(
    job: str,
    project: ProjectOptions,
    *,
    name: str | None,
    compute: str | None,
    follow: bool,
) -> None:
    """Submit a job again, with the same code, environment and inputs.

    Local changes have no effect: AzureML has everything that the job needs.
    """
    service = open_workspace(project)
    new = name or f"{job[:200]}-{secrets.token_hex(3)}"
    view = service.copy_job(job, new, compute=compute)
    click.echo(view.name)
    if follow:
        _print_logs(service, view.name, "user_logs/*", follow=True)


@jobs.command("check-resume")
@project_options
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="Preempt it at this step.  [default: half-way]")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.01,
    metavar="X",
    help="Count metrics as equal up to this relative difference.  [default: 0.01]",
)
@json_option()
def check_resume(project: ProjectOptions, *, step: int | None, tolerance: float, as_json: bool) -> None:
    """Show on the local AzureML that the training resumes after a preemption.

    The job runs twice: undisturbed, and preempted once at a step of `resume.metric`, after which the next attempt gets its
    checkpoints. That attempt must go on at a later step than the first, without steps that fall back, lose no more than
    `resume.every` steps, and end with the same metrics of the gate. Nothing is registered.

    Exit codes: 0 it resumes, 2, 5 a training failed, 6 it does not resume, 7 interrupted.
    """
    config = project.load()
    if config.target.kind != "local":
        raise InvalidError(
            f"The target {config.target.name} is no local AzureML, where a job can be preempted.",
            hint="Add --target local.",
        )

    def preempt(job: str) -> None:
        ask_emulator(f"jobs/{quote(job, safe='')}/preempt", {"force": "1", "fail": "1"}, method="POST")

    prepared = prepare_run(config, this_host(), own=own_output())
    listener = masked_listener(masker(), ConsoleListener(sys.stderr))
    found = resume_check.check_resume(
        prepared, preempt=preempt, step=step, tolerance=tolerance, listener=listener, masker=masker()
    )
    if as_json:
        print_result(found.facts())
    else:
        for name, histories in found.metrics.items():
            alone, before, after = (series_of({name: points})[name] for points in histories)
            drawn = plot(alone, [*before, *after])
            print_lines([f"{name} over steps   ● undisturbed   ○ preempted and resumed", *drawn])
        click.echo(f"{found.attempts[1]} was given the checkpoints of {found.source or 'no attempt'}")
        click.echo(f"steps done again: {found.repeated}")
    found.require()


@jobs.command("download")
@click.argument("job")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@target_options
@click.option(
    "-o",
    "--output",
    "to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder.  [default: the job's name]",
)
@click.option(
    "--output-name", "outputs", multiple=True, metavar="NAME", help="A named output, instead; may be repeated."
)
def download(
    job: str,
    patterns: tuple[str, ...],
    project: ProjectOptions,
    *,
    to: Path | None,
    outputs: tuple[str, ...],
) -> None:
    """Download a job's artefacts (outputs/, logs), or its named outputs.

    PATTERNs select artefacts: * and ? match within a folder, ** matches any folders. A file gets its name when it is complete and its
    checksum is verified; after an interruption the same command continues.

    \b
    aml-train jobs download JOB                          everything
    aml-train jobs download JOB outputs/model 'outputs/*.json'
    aml-train jobs download JOB --output-name model -o model
    """
    places = job_files(open_data(project), job, to or Path(job), patterns=patterns, outputs=outputs)

    def work(tally: Any) -> None:
        for place, path in places:
            place.download(path, tally, folder_wanted=True)

    moved("received", work)
