"""The commands ``aml-train model …``, ``promote`` and ``rollback``."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import fetch_place, model_place
from aml_train.azure.models import AzureCatalogue, AzurePassports
from aml_train.cli.data import moved
from aml_train.cli.options import (
    OutputOptions,
    model_address,
    most,
    open_workspace,
    output_options,
    place_of,
    shown_metrics,
    tag_filter,
    this_host,
)
from aml_train.cli.output import json_option, print_facts, print_lines, print_result, print_result_line
from aml_train.cli.passport import passport
from aml_train.cli.project import ProjectOptions, gather, target_options
from aml_train.cli.reproduce import reproduce
from aml_train.cli.tables import metric_cell, table
from aml_train.config.load import load_promotion
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import GateFailedError, InvalidError, ServiceError
from aml_train.core.events import Broadcast
from aml_train.core.tags import Tag
from aml_train.models.browse import ModelFilter, describe_model, find_model, list_models, metrics_of
from aml_train.models.download import check_target, download_model
from aml_train.models.lineage import render_lineage
from aml_train.pipeline.passport import policy_of
from aml_train.pipeline.promotion import open_promoter, promotion_request, run_promotion

if TYPE_CHECKING:
    from aml_train.core.events import Listener
    from aml_train.models.browse import ModelRow
    from aml_train.models.download import DownloadedModel
    from aml_train.models.promotion.change import Confirm, Promotion
    from aml_train.models.promotion.promote import Promoter

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def model() -> None:
    """List, show, download and train again registered models, and trace their lineage.

    `aml-train promote` changes their stages.

    \b
    aml-train model list
    aml-train model list digits --versions
    aml-train model show digits@production
    aml-train model lineage digits:7
    aml-train model download digits@production
    """


for _command in (reproduce, passport):
    model.add_command(_command)


def _open(project: ProjectOptions) -> Promoter:
    return open_promoter(*place_of(project))


@model.command("list")
@click.argument("pattern", metavar="[MODEL]", required=False)
@target_options
@click.option("--versions", is_flag=True, help="List versions, the newest first.")
@click.option(
    "--stage",
    metavar="STAGE",
    help="Only versions in this stage, such as production.",
)
@click.option(
    "--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="Only versions with this tag; may be repeated."
)
@shown_metrics
@most
@json_option(lines=True)
def list_(
    pattern: str | None,
    project: ProjectOptions,
    *,
    versions: bool,
    stage: str | None,
    tags: tuple[str, ...],
    metrics: tuple[str, ...],
    lines: int,
    as_json: bool,
) -> None:
    """List models with their stages, or their versions. MODEL may have * and ?."""
    promoter = _open(project)
    chosen = ModelFilter(stage=stage.lower() if stage else None, tags=tag_filter(tags))
    rows = list_models(promoter.service, promoter.catalogue, pattern, chosen)
    if versions or metrics:
        each = list(itertools.islice((one for row in rows for one in row.versions), lines or None))
        facts = [describe_model(one) for one in each]
        head: tuple[str, ...] = ("NAME", "VERSION", "STAGE", "GATE", "METRICS", "CREATED", "JOB")
        cells: list[tuple[str, ...]] = [
            (
                one.name,
                one.version,
                one.staged or "",
                one.tags.get(Tag.GATE, ""),
                metric_cell(metrics_of(one), metrics),
                one.created[:19].replace("T", " "),
                one.origin or "",
            )
            for one in each
        ]
    else:
        found = list(itertools.islice(rows, lines or None))
        facts, head = [row.facts() for row in found], ("NAME", "VERSIONS", "LATEST", "STAGES")
        cells = [(row.name, str(len(row.versions)), row.versions[0].version, _stages(row)) for row in found]
    if not as_json:
        print_lines(table(head, cells))
    for one in facts if as_json else ():
        print_result_line(one)


def _stages(row: ModelRow) -> str:
    return "  ".join(f"{stage}: {', '.join(names[:5])}" for stage, names in sorted(row.stages.items()))


@model.command("show")
@model_address
@target_options
@json_option()
def show(address: str, project: ProjectOptions, *, as_json: bool) -> None:
    """Show a model version, by default the newest one.

    Prints its stage, metrics, parameters, tags and promotions.
    """
    promoter = _open(project)
    found = find_model(promoter.service, promoter.catalogue, address)
    try:
        record = promoter.record(found.name)
    except ServiceError as error:
        click.echo(f"note: its promotions cannot be read: {error.message}", err=True)
        record = None
    print_facts(describe_model(found, record), as_json=as_json)


@model.command("download")
@click.argument("address", metavar="MODEL@STAGE|MODEL:VERSION")
@target_options
@click.option(
    "-o",
    "--output",
    "to",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that gets exactly these files.  [default: MODEL-VERSION]",
)
@click.option("--force", is_flag=True, help="Replace a folder that is not empty.")
@json_option()
def download(address: str, project: ProjectOptions, *, to: Path | None, force: bool, as_json: bool) -> None:
    """Download the files of a model version, whole or not at all.

    The folder gets its name when every file is complete. If the version has a passport, each file's digest is compared with it; `aml-train
    verify` checks the signatures, too. After an interruption the same command continues.

    \b
    aml-train model download digits@production
    aml-train model download digits:7 -o model

    Exit codes: 0, 2 the folder is not empty, 8 the service, 9 the files are not those that were signed.
    """
    service = open_workspace(project)
    found = find_model(service, AzureCatalogue(service, SYSTEM_CLOCK), address)
    folder = to or Path(f"{found.name}-{found.version}")
    check_target(folder, force=force)
    data = DataWorkspace(service)
    place = model_place(data, found.path, f"{found.name}:{found.version}")

    def work(tally: Any) -> DownloadedModel:
        return download_model(
            found,
            folder,
            store=AzurePassports(service, data),
            fetch=lambda _model, path: fetch_place(place, path, tally),
            force=force,
        )

    done = moved("received", work, quiet=as_json)
    files = done.files.digests
    if as_json:
        facts = {"name": found.name, "version": found.version, "folder": str(done.folder), "checked": done.checked}
        print_result({**facts, "size": done.size, "files": dict(files)})
        return
    noun = "file" if len(files) == 1 else "files"
    checked = "their digests are those of its passport" if done.checked else "it has no passport to check them by"
    click.echo(f"{folder}: {found.name} version {found.version}, {len(files)} {noun}; {checked}")


@model.command("lineage")
@model_address
@target_options
@json_option()
def lineage(address: str, project: ProjectOptions, *, as_json: bool) -> None:
    """Trace a model version to its job, image, tests, base, commit and data.

    Each step is looked up:

    \b
    ✓ verified: it is as recorded              · recorded: not confirmed here
    ✗ broken: it is gone, or does not match    ? unknown: the look-up failed

    Exit codes: 0, 6 if a step is broken, 8 the service.
    """
    promoter = _open(project)
    traced = promoter.tracer.trace(find_model(promoter.service, promoter.catalogue, address))
    if as_json:
        print_result(traced.facts())
    else:
        print_lines(render_lineage(traced))
    if traced.broken:
        raise GateFailedError(f"The lineage of {traced.name} is broken: {'; '.join(traced.broken)}")


def _change_options(command: _Command) -> _Command:
    options = {
        "stage": click.option(
            "--to",
            "stage",
            required=True,
            metavar="STAGE",
            help="The stage, such as production.",
        ),
        "expect": click.option(
            "--expect",
            metavar="VERSION",
            help="The version that must be in the stage now, or `none`; else nothing is changed (exit code 6).",
        ),
        "reason": click.option(
            "--reason", default="", metavar="TEXT", help="The reason; it is stored with the model."
        ),
        "actor": click.option(
            "--actor",
            metavar="NAME",
            help="Who promotes.  [default: AML_TRAIN_ACTOR, else the user of this process]",
        ),
        "dry_run": click.option("--dry-run", is_flag=True, help="Decide everything, and change nothing."),
        "yes": click.option(
            "-y", "--yes", is_flag=True, help="Do not ask after the decision; required without a terminal."
        ),
    }
    return target_options(gather(output_options(command), "change", dict, options))


@click.command()
@click.argument("model", metavar="[MODEL[:VERSION]]", required=False)
@click.option(
    "--allow-foreign",
    is_flag=True,
    help="Take a version that is not proved to be the branch's own; needs --reason, and is recorded.",
)
@_change_options
def promote(
    model: str | None,
    project: ProjectOptions,
    change: dict[str, Any],
    output: OutputOptions,
    *,
    allow_foreign: bool,
) -> None:
    """Promote a model version if it passes the stage's gate.

    By default, MODEL is that of aml-train.yml, and VERSION the newest candidate that passed the gate of its run. Its job must be proved
    to be what a commit of the default branch (or `from-branch`) trains: check out the whole history, or sign. The lineage is verified, and the rules of `promote.STAGE.gate` (else of `gate`) are decided again, with the stage's present version as the baseline;
    that version is archived. Only tags change, unless `promote.STAGE.to` names another workspace: files, image and passport are copied to
    it, and the stage and its versions are those of that workspace. On a terminal, the decision and every change of a tag are shown, and nothing is changed
    without an answer. Of two concurrent promotions, at most one succeeds.

    \b
    aml-train promote --to production --dry-run
    aml-train promote digits:7 --to production --reason "better on night images" --yes
    aml-train promote digits:7 --to production --expect 5 --yes

    Exit codes: 0 it is in the stage (also if it was already), 2 invalid, 6 refused, 8 the service.
    """
    found = load_promotion(project.config, directory=project.directory, target=project.target)
    name, _, version = (model or found.model or "").partition(":")
    policy, signers = found.promote.of(change["stage"]), policy_of(found.passport, None, found.directory)
    ask = _question(change)
    request = promotion_request(
        name,
        environ=os.environ,
        version=version or None,
        policy=policy,
        allow_foreign=allow_foreign,
        **change,
    )

    def work(listener: Listener) -> Promotion:
        host, project = this_host(), found.project
        promoter = open_promoter(
            host, found.target, found.directory, listener, project=project, policy=signers, to=policy.to
        )
        return promoter.promote(request, ask)

    _carry_out(work, output)


@click.command()
@click.argument("model", metavar="[MODEL]", required=False)
@_change_options
def rollback(model: str | None, project: ProjectOptions, change: dict[str, Any], output: OutputOptions) -> None:
    """Return a stage to its previous model version.

    The record of promotions names that version, and the present one is archived. A second rollback goes one version further back. No
    gate is decided. By default, MODEL is that of aml-train.yml. On a terminal, every change of a tag is shown, and nothing is changed
    without an answer.

    \b
    aml-train rollback --to production --dry-run
    aml-train rollback digits --to production --reason "wrong on Sundays" --yes

    Exit codes: 0 it is in the stage again, 6 no record of an earlier version, 8 the service.
    """
    found = load_promotion(project.config, directory=project.directory, target=project.target)
    ask = _question(change)
    request = promotion_request(model or found.model, environ=os.environ, **change)
    to = found.promote.of(request.stage).to
    _carry_out(
        lambda listener: open_promoter(this_host(), found.target, found.directory, listener, to=to).rollback(
            request, ask
        ),
        output,
    )


def _question(change: dict[str, Any]) -> Confirm | None:
    """Take ``--yes`` out of the options of a change; return the question that precedes it, None if there is none.

    Raises:
        InvalidError: no one can answer.
    """
    if change.pop("yes") or change["dry_run"]:
        return None
    if not sys.stdin.isatty():
        raise InvalidError(
            "Confirmation needed, but stdin is not a terminal: pass --yes.", hint="Or look first: --dry-run."
        )
    return _ask


def _ask(question: str) -> bool:
    """Ask on the terminal; no answer is no. The output may be redirected."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


def _carry_out(work: Callable[[Listener], Promotion], output: OutputOptions) -> NoReturn:
    """Change the stage, show it, and end with its exit code."""
    with output.listener() as shown:
        listener = Broadcast(shown)
        end, _ = run_promotion(lambda: work(listener), listener)
    sys.exit(end.exit_code)
