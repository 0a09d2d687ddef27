"""The command ``aml-train image prune``: clean up the registry by reachability."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.console import ConsoleListener
from aml_train.cli.options import sigterm_as_interrupt, this_host
from aml_train.cli.output import json_option, print_result
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.cli.tables import table
from aml_train.core.text import printable, size
from aml_train.pipeline.prune import PruneOptions, prepare_prune, prune_facts

if TYPE_CHECKING:
    from aml_train.image.prune.plan import PrunePlan
    from aml_train.image.prune.registry import PruneOutcome, PruneResult

_MOST_REASONS: Final = 12
_UNLISTED: Final = (
    "This registry lists only tags: manifests without a tag, an index or a list of referrers that leads to them are unknown "
    "here, and stay until its own garbage collection."
)


@click.command("prune")
@project_options
@click.option(
    "--older-than",
    type=click.FloatRange(min=2),
    default=30.0,
    help="Keep what was pushed or tagged in the last DAYS days, and the images of the jobs of these days.  [default: 30]",
    metavar="DAYS",
)
@click.option(
    "--keep-tag",
    "keep_tags",
    multiple=True,
    metavar="PATTERN",
    help="Keep images with such a tag; * and ? are wildcards; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
@json_option()
def prune(
    project: ProjectOptions, *, older_than: float, keep_tags: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Delete the project's images that nothing uses from the registry.

    Images stay that a model, a live or recent job, an environment, a deployment, a schedule, a branch's or any other tag or the build
    cache leads to, with their parts and records. Candidates of ended runs, manifests without tags, and releases that nothing uses go once
    they are old enough. If any of this cannot be read, nothing is deleted.

    Exit codes: 0, 3 the registry, 8 a workspace.

    \b
    aml-train image prune --dry-run
    aml-train image prune --target azure --older-than 90 --keep-tag 'v*'
    """
    config, targets = project.load(), project.targets()
    named = [targets.named(name) for name in targets.names("targets")]
    options = PruneOptions(older_than=older_than, keep_tags=keep_tags)
    with sigterm_as_interrupt():
        prepared = prepare_prune(config, named, this_host(), options, ConsoleListener(sys.stderr))
        with prepared.registry:
            _show(_planned(prepared.plan), err=as_json)
            if not prepared.plan.inventory.untagged_listed:
                click.echo(f"note: {_UNLISTED}", err=True)
            result = None if dry_run else prepared.execute(_report)
    _show(_summary(prepared.plan, result), err=as_json)
    if as_json:
        print_result(prune_facts(prepared.plan, result))


def _show(lines: Iterator[str], *, err: bool) -> None:
    for line in lines:
        click.echo(printable(line), err=err)


def _planned(plan: PrunePlan) -> Iterator[str]:
    """Yield a line for each manifest that is to go, and what keeps the others."""
    if plan.delete:
        rows = [
            (one.entry.repository, one.entry.digest[:19], _size(one.entry.size), one.reason) for one in plan.delete
        ]
        yield from table(
            ("REPOSITORY", "MANIFEST", "SIZE", "REASON"), rows, right={(at, 2) for at in range(len(rows))}
        )
    reasons = Counter(one.reason for one in plan.keep)
    for reason, count in reasons.most_common(_MOST_REASONS):
        yield f"keep {count}: {reason}"
    if len(reasons) > _MOST_REASONS:
        yield f"and {len(reasons) - _MOST_REASONS} more reasons to keep images (--json lists them)"


def _report(outcome: PruneOutcome) -> None:
    if outcome.state == "left":
        entry = outcome.deletion.entry
        click.echo(f"left: {entry.repository}@{entry.digest[:19]}: {outcome.why}", err=True)


def _summary(plan: PrunePlan, result: PruneResult | None) -> Iterator[str]:
    total = len(plan.inventory.entries)
    if result is None:
        yield f"{len(plan.delete)} of {total} manifests would be deleted, at most {size(plan.bytes)}"
        return
    parts = [f"{result.count('deleted')} of {total} manifests deleted, at most {size(result.bytes)}"]
    if gone := result.count("gone"):
        parts.append(f"{gone} already gone")
    if left := result.count("left"):
        parts.append(f"{left} left")
    yield ", ".join(parts)


def _size(count: int | None) -> str:
    return "?" if count is None else size(count)
