"""The commands ``aml-train model …``: the registered models of a workspace, their stages, and where they come from."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aml_train.cli.options import target_options

if TYPE_CHECKING:
    from aml_train.models import ModelFilter, ModelRow, Promoter


@click.group()
def model() -> None:
    """Registered models: list, show, lineage. `aml-train promote` changes their stages.

    \b
    aml-train model list
    aml-train model list digits --versions
    aml-train model show digits@production
    aml-train model lineage digits:7
    """


def _open(directory: Path, config: Path | None, target: str | None) -> Promoter:
    from aml_train.cli.console import ConsoleListener
    from aml_train.config import load_targets
    from aml_train.pipeline import Host, open_promoter

    targets = load_targets(config, directory=directory)
    return open_promoter(
        Host(environ=dict(os.environ)), targets.named(target), targets.directory, ConsoleListener(sys.stderr)
    )


@model.command("list")
@click.argument("pattern", metavar="[MODEL]", required=False)
@target_options
@click.option("--versions", is_flag=True, help="A line for each version, the newest first.")
@click.option("--stage", metavar="STAGE", help="Only versions in this stage, such as production.")
@click.option(
    "--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="Only versions with this tag; may be repeated."
)
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric; may be repeated.  [default: all]"
)
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=20, help="At most so many; 0 for all.  [default: 20]"
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
def list_(
    pattern: str | None,
    directory: Path,
    config: Path | None,
    target: str | None,
    *,
    versions: bool,
    stage: str | None,
    tags: tuple[str, ...],
    metrics: tuple[str, ...],
    lines: int,
    as_json: bool,
) -> None:
    """List models with their stages, or their versions. MODEL may have * and ?."""
    import itertools

    from aml_train.models import list_models, version_facts

    promoter = _open(directory, config, target)
    versions = versions or bool(metrics)
    rows = list_models(promoter.service, promoter.catalogue, pattern, _filter(stage, tags))
    if not versions:
        found = list(itertools.islice(rows, lines or None))
        for line in [json.dumps(row.facts(), ensure_ascii=False) for row in found] if as_json else _models(found):
            click.echo(line)
        return
    each = list(itertools.islice((one for row in rows for one in row.versions), lines or None))
    if as_json:
        for one in each:
            click.echo(json.dumps(version_facts(one), ensure_ascii=False))
        return
    from aml_train.cli.table import table
    from aml_train.models import metrics_of

    cells = []
    for one in each:
        shown = {name: value for name, value in metrics_of(one).items() if not metrics or name in metrics}
        facts = version_facts(one)
        cells.append(
            (
                one.name,
                one.version,
                one.staged or "",
                str(facts["gate"] or ""),
                " ".join(f"{name}={value:.6g}" for name, value in sorted(shown.items())[:6]),
                one.created[:19].replace("T", " "),
                str(facts["job"] or ""),
            )
        )
    for line in table(("NAME", "VERSION", "STAGE", "GATE", "METRICS", "CREATED", "JOB"), cells):
        click.echo(line)


def _filter(stage: str | None, tags: Sequence[str]) -> ModelFilter:
    from aml_train.models import ModelFilter

    pairs = (tag.partition("=") for tag in tags)
    return ModelFilter(
        stage=stage.lower() if stage else None,
        tags={key: value if equals else None for key, equals, value in pairs},
    )


def _models(rows: Sequence[ModelRow]) -> list[str]:
    from aml_train.cli.table import table

    cells = [
        (
            row.name,
            str(len(row.versions)),
            row.versions[0].version,
            "  ".join(f"{stage}: {', '.join(names[:5])}" for stage, names in sorted(row.stages.items())),
        )
        for row in rows
    ]
    return list(table(("NAME", "VERSIONS", "LATEST", "STAGES"), cells))


@model.command("show")
@click.argument("address", metavar="MODEL[:VERSION|@STAGE]")
@target_options
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def show(address: str, directory: Path, config: Path | None, target: str | None, *, as_json: bool) -> None:
    """Show a version: its stage, metrics, parameters, tags, and its promotions. The newest one by default."""
    import yaml

    from aml_train.cli.console import printable
    from aml_train.core.errors import ServiceError
    from aml_train.models import describe_model, find_model

    promoter = _open(directory, config, target)
    found = find_model(promoter.service, address)
    try:
        record = promoter.record(found.name)
    except ServiceError as error:
        click.echo(f"note: its promotions cannot be told: {error.message}", err=True)
        record = None
    told = describe_model(found, record)
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return
    text = yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120)
    click.echo("\n".join(printable(line) for line in text.rstrip("\n").split("\n")))


@model.command("lineage")
@click.argument("address", metavar="MODEL[:VERSION|@STAGE]")
@target_options
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def lineage(address: str, directory: Path, config: Path | None, target: str | None, *, as_json: bool) -> None:
    """Show where a version comes from, each step looked up: job, image, tests, base, commit, data.

    \b
    ✓ verified: it is there, and is what is written down     · recorded: nothing here can confirm it
    ✗ broken: it is gone, or is something else                ? unknown: it could not be looked up

    Exit codes: 0, 6 if a step is broken, 8 the service.
    """
    from aml_train.cli.console import printable
    from aml_train.core.errors import GateFailedError
    from aml_train.models import find_model, render_lineage

    promoter = _open(directory, config, target)
    traced = promoter.tracer.trace(find_model(promoter.service, address))
    if as_json:
        click.echo(json.dumps(traced.facts(), ensure_ascii=False, indent=2))
    else:
        for line in render_lineage(traced):
            click.echo(printable(line))
    if traced.broken:
        broken = "; ".join(f"{step.kind} {step.name}: {step.detail}" for step in traced.broken)
        raise GateFailedError(f"The lineage of {traced.name} is broken: {broken}")
