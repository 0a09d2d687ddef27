"""The commands ``aml-train promote`` and ``aml-train rollback``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from aml_train.cli.options import target_options
from aml_train.cli.running import colors, events_file, terminate_like_interrupt

if TYPE_CHECKING:
    from aml_train.config import TargetConfig
    from aml_train.models import Promoter, Promotion, PromotionRequest

#: Who asks, and in which workflow's run: the action and workflows say it.
ACTOR_VARIABLE: Final = "AML_TRAIN_ACTOR"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _options(command: _Command) -> _Command:
    """Add the options that both commands have."""
    options = (
        click.option("--to", "stage", required=True, metavar="STAGE", help="The stage, such as production."),
        click.option(
            "--expect",
            metavar="VERSION",
            help="The version that must be in the stage now, or `none`; else nothing is changed (exit code 6).",
        ),
        click.option("--reason", default="", metavar="TEXT", help="Why; it is kept with the model."),
        click.option(
            "--actor", metavar="NAME", help=f"Who asks.  [default: {ACTOR_VARIABLE}, else the user of this process]"
        ),
        click.option("--dry-run", is_flag=True, help="Decide everything, and change nothing."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where nobody can answer."),
        events_file,
        colors,
    )
    for option in reversed(options):
        command = option(command)
    return target_options(command)


@click.command()
@click.argument("model", metavar="[MODEL[:VERSION]]", required=False)
@_options
def promote(
    model: str | None,
    directory: Path,
    config: Path | None,
    target: str | None,
    *,
    stage: str,
    expect: str | None,
    reason: str,
    actor: str | None,
    dry_run: bool,
    yes: bool,
    json_file: Path | None,
    no_color: bool,
) -> None:
    """Put a model's version into a stage, and archive the one that is there.

    MODEL is that of aml-train.yml by default, VERSION the newest candidate that passed the gate of its run. Its lineage is verified, and the
    rules of `promote.STAGE.gate` (else of `gate`) are decided anew, with the model that is in the stage now as the baseline. Only
    tags change. Two promotions at once cannot both win.

    \b
    aml-train promote --to production --dry-run
    aml-train promote digits:7 --to production --reason "better on night images" --yes
    aml-train promote digits:7 --to production --expect 5 --yes

    Exit codes: 0 it is in the stage (also if it was already), 2 invalid, 6 it may not get there, 8 the service.
    """
    from aml_train.config import load_promotion
    from aml_train.core.errors import InvalidError
    from aml_train.models import PromotionRequest

    found = load_promotion(config, directory=directory, target=target)
    name, _, version = (model or found.model or "").partition(":")
    if not name:
        raise InvalidError(
            "Which model? aml-train.yml has no `model`.", hint="aml-train promote MODEL:VERSION --to …"
        )
    request = PromotionRequest(
        model=name,
        version=version or None,
        stage=stage,
        actor=actor or _actor(),
        policy=found.policy(stage),
        expect=expect,
        reason=reason,
        run_url=os.environ.get("AML_TRAIN_RUN_URL") or None,
        dry_run=dry_run,
    )

    def work(promoter: Promoter) -> Promotion:
        return promoter.promote(request)

    question = f"Promote {name}{':' + version if version else ''} to {stage}?"
    _run(request, question, work, found.target, found.directory, json_file, no_color=no_color, yes=yes)


@click.command()
@click.argument("model", metavar="MODEL")
@_options
def rollback(
    model: str,
    directory: Path,
    config: Path | None,
    target: str | None,
    *,
    stage: str,
    expect: str | None,
    reason: str,
    actor: str | None,
    dry_run: bool,
    yes: bool,
    json_file: Path | None,
    no_color: bool,
) -> None:
    """Have the version in a stage again that was there before, and archive the present one.

    The record of promotions says which it is; a second rollback goes one further back. Nothing is decided anew.

    \b
    aml-train rollback digits --to production --reason "wrong on Sundays" --yes

    Exit codes: 0 it is in the stage again, 6 no record says what to go back to, 8 the service.
    """
    from aml_train.config import load_targets
    from aml_train.models import PromotionRequest

    targets = load_targets(config, directory=directory)
    request = PromotionRequest(
        model=model,
        stage=stage,
        actor=actor or _actor(),
        expect=expect,
        reason=reason,
        run_url=os.environ.get("AML_TRAIN_RUN_URL") or None,
        dry_run=dry_run,
    )

    def work(promoter: Promoter) -> Promotion:
        return promoter.rollback(request)

    where = (targets.named(target), targets.directory)
    _run(request, f"Roll {model} back in {stage}?", work, *where, json_file, no_color=no_color, yes=yes)


def _actor() -> str:
    """Return who asks: as the environment says, else the user of this process."""
    import getpass

    given = os.environ.get(ACTOR_VARIABLE)
    if given:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return f"user {os.getuid()}"


def _run(
    request: PromotionRequest,
    question: str,
    work: Callable[[Promoter], Promotion],
    target: TargetConfig,
    directory: Path,
    json_file: Path | None,
    *,
    no_color: bool,
    yes: bool,
) -> None:
    """Ask whether it is meant, do it on the console, and end with its exit code."""
    from aml_train.cli.console import ConsoleListener
    from aml_train.core.errors import InvalidError
    from aml_train.core.events import Broadcast
    from aml_train.core.streams import lasting_output
    from aml_train.pipeline import Host, json_listener, open_promoter, run_promotion

    if not yes and not request.dry_run:
        if not sys.stdin.isatty():
            raise InvalidError("Nobody can be asked here whether it is meant.", hint="Add --yes, or --dry-run.")
        click.confirm(question, abort=True)
    console = ConsoleListener(lasting_output(sys.stdout, sys.stderr), color=False if no_color else None)
    with (
        terminate_like_interrupt(),
        json_listener(json_file) as recorders,
        contextlib.closing(console),
    ):
        listener = Broadcast(console, *recorders)

        def whole() -> Promotion:
            return work(open_promoter(Host(environ=dict(os.environ)), target, directory, listener))

        end, _ = run_promotion(whole, listener)
    sys.exit(end.exit_code)
