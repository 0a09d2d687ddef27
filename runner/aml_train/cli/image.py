"""The commands ``aml-train image …``: what concerns the image alone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from docker.errors import ImageNotFound

from aml_train.cli.console import STYLES, ConsoleListener
from aml_train.cli.devcontainer import devcontainer, shell
from aml_train.cli.options import OutputOptions, force_build, keep_tests, output_options, this_host
from aml_train.cli.output import json_option, print_exactly, print_lines, print_result
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.cli.tables import table
from aml_train.core.checks import CHECKS
from aml_train.core.docker import connect_engine
from aml_train.core.errors import ImageError, InvalidError
from aml_train.core.text import printable, size
from aml_train.core.threads import drain
from aml_train.image.build.build import Build
from aml_train.image.prune.plan import PrunePolicy, volume
from aml_train.image.prune.registry import execute_prune
from aml_train.image.readiness.check import judge_facts, probe_image, readiness_error
from aml_train.image.spec import CheckPolicy
from aml_train.pipeline.prepare import plan_image_only
from aml_train.pipeline.result import RunOptions
from aml_train.prune import prepare_prune, prune_facts
from aml_train.report.event_lines import SIGNS

if TYPE_CHECKING:
    from aml_train.image.prune.plan import PrunePlan
    from aml_train.image.prune.registry import PruneOutcome


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
    policy = PrunePolicy(older_than=older_than * 24 * 3600.0, keep_tags=keep_tags)
    plan, registry = prepare_prune(config, named, this_host(), policy, ConsoleListener(sys.stderr))
    with registry:
        print_lines(_planned(plan), err=as_json)
        result = None if dry_run else execute_prune(plan, registry, _report)
    click.echo(_summary(plan, result), err=as_json)
    if as_json:
        print_result(prune_facts(plan, result))


def _planned(plan: PrunePlan) -> Iterator[str]:
    """Yield a line for each manifest that is to go, and what keeps the others."""
    if plan.delete:
        sizes = ("?" if one.entry.size is None else size(one.entry.size) for one in plan.delete)
        rows = [
            (one.entry.repository, one.entry.digest[:19], volume, one.reason)
            for one, volume in zip(plan.delete, sizes, strict=True)
        ]
        yield from table(
            ("REPOSITORY", "MANIFEST", "SIZE", "REASON"), rows, right={(at, 2) for at in range(len(rows))}
        )
    for reason, count in Counter(reason for _, reason in plan.keep).most_common():
        yield f"keep {count}: {reason}"


def _report(outcome: PruneOutcome) -> None:
    if outcome.state == "left":
        entry = outcome.deletion.entry
        click.echo(f"left: {entry.repository}@{entry.digest[:19]}: {outcome.why}", err=True)


def _summary(plan: PrunePlan, outcomes: Sequence[PruneOutcome] | None) -> str:
    total = len(plan.inventory.entries)
    if outcomes is None:
        return f"{len(plan.delete)} of {total} manifests would be deleted, at most {size(volume(plan.delete))}"
    count, done = Counter(one.state for one in outcomes), [one.deletion for one in outcomes if one.state == "deleted"]
    text = f"{len(done)} of {total} manifests deleted, at most {size(volume(done))}"
    gone = f", {count['gone']} already gone" if count["gone"] else ""
    return text + gone + (f", {count['left']} left" if count["left"] else "")


@click.group()
def image() -> None:
    """Build, check, render and enter the training image, or clean up; without a job."""


for _command in (prune, shell, devcontainer):
    image.add_command(_command)


@image.command("build")
@project_options
@force_build
@keep_tests
@output_options
def build(
    project: ProjectOptions,
    output: OutputOptions,
    *,
    force_build: bool,
    keep_tests: bool,
) -> None:
    """Build, check, test and push the image; submit no job.

    The image is the one that `aml-train run` trains in, and a later run of the same commit finds it. Its address and digest are
    in the report, and in the result that --json prints.

    \b
    aml-train image build --target azure
    aml-train image build --json | jq -r .image
    """
    loaded = project.load()
    if loaded.image is None:
        raise InvalidError(
            "The configuration has no `image:`: the job's own environment is used as it is.",
            hint="Write `image:` with a `base:`, or `aml-train init` for an example.",
        )
    options = RunOptions(submit=False, force_build=force_build, keep_tests=keep_tests)
    output.execute(loaded, lambda _prepared: options)


@image.command("check")
@click.argument("reference", metavar="IMAGE")
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice(list(CHECKS)),
    metavar="CHECK",
    help="Ignore the findings of a check; may be repeated.",
)
@click.option(
    "--require",
    "packages",
    multiple=True,
    metavar="PACKAGE",
    help="Require a Python package, such as azureml-defaults; may be repeated.",
)
@click.option("--infiniband", is_flag=True, help="Require InfiniBand drivers.")
@json_option()
def check(
    reference: str, *, ignored: tuple[str, ...], packages: tuple[str, ...], infiniband: bool, as_json: bool
) -> None:
    """Check whether an image is ready for AzureML and InfiniBand.

    IMAGE must be available in the Docker engine. It is run once, without a network and without its entrypoint. `aml-train image build`
    checks the configuration's image in the same way. Exit code 3 if a check fails.

    \b
    aml-train image check nvcr.io/nvidia/pytorch:24.10-py3 --infiniband
    aml-train image check myregistry.azurecr.io/digits@sha256:… --require azureml-defaults
    """
    engine = connect_engine(dict(os.environ))
    with contextlib.closing(engine), drain():
        try:
            facts = probe_image(engine, reference)
        except ImageNotFound as error:
            hint = f"Pull it: docker pull {reference}"
            raise ImageError(f"the engine does not have {reference}", hint=hint) from error
    needed = tuple(one.lower().replace("_", "-") for one in packages)
    policy = CheckPolicy(ignore=ignored, packages=needed, infiniband=infiniband)
    findings = judge_facts(facts, policy)
    if as_json:
        print_result({"image": reference, "findings": [vars(finding) for finding in findings], "facts": facts})
    for finding in findings:
        sign = SIGNS[finding.counts_as]
        click.echo(f"{click.style(sign, fg=STYLES[sign])} {printable(str(finding))}", err=as_json)
    if (failed := readiness_error(findings)) is not None:
        count = sum(finding.counts_as == "error" for finding in findings)
        click.echo(f"{reference} is not ready: {count} {'error' if count == 1 else 'errors'}", err=True)
        sys.exit(failed.exit_code)
    click.echo(f"{reference} is ready", err=as_json)


@image.command("render")
@project_options
@click.option("--offline", is_flag=True, help="Query no registry: FROM names the images as they are written.")
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write Dockerfile and build context into a new folder, to build by hand.",
)
def render(
    project: ProjectOptions,
    *,
    offline: bool,
    folder: Path | None,
) -> None:
    """Print the Dockerfile of the configuration's image; build nothing.

    \b
    aml-train image render            base and other images by their digests
    aml-train image render --offline  without engine and registry
    aml-train image render --write build && docker build build/context -f build/Dockerfile
    """
    loaded = project.load()
    spec = plan_image_only(
        loaded, this_host(), remark=lambda text: click.echo(f"note: {text}", err=True), offline=offline
    )
    print_exactly(spec.dockerfile)
    if not offline:
        click.echo(f"address {spec.address_tag} ({spec.platform})", err=True)
    if folder is not None:
        try:
            folder.mkdir()
        except OSError as error:
            raise InvalidError(
                f"--write {folder}: cannot be made: {error.strerror}", hint="Name a new folder."
            ) from error
        Build(spec=spec).write(folder)
