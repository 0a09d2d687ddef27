"""The job: check its grammar, then its paths and references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aml_train.config.job.grammar import JOB, lower
from aml_train.config.job.graph import check_pipeline, check_sweep, no_environment
from aml_train.config.job.model import Job
from aml_train.config.job.paths import check_code, check_environment, check_inputs
from aml_train.config.job.references import check_command
from aml_train.config.job.script import check_script, remark_inputs
from aml_train.config.job.source import JobSource
from aml_train.config.overrides import Override, apply_to_job
from aml_train.config.yaml.nodes import Faults, ScalarNode, find


def check_job(
    source: JobSource,
    overrides: Sequence[Override],
    *,
    has_image: bool,
    project: Path,
    faults: Faults,
    unchecked: bool = False,
    prepared: bool = False,
) -> Job | None:
    """Check a job.

    Args:
        source: where it was read from.
        overrides: changes of ``--set job.…``.
        has_image: an image of ours replaces the environment.
        project: the folder that files are named from in faults.
        faults: takes the faults.
        unchecked: nodes of kinds that are not known here pass.
        prepared: commands of ``setup`` come before the job's own, and may make files.

    Returns:
        The job; None if it is too wrong to check further.
    """
    tree = apply_to_job(source.tree, overrides, faults)
    given = find(tree, "type")
    word = lower(given.text) if isinstance(given, ScalarNode) else ""
    if word in ("pipeline", "sweep"):
        source = replace(source, tree=tree)
        if word == "pipeline":
            document, nodes = check_pipeline(
                source, has_image=has_image, unchecked=unchecked, project=project, faults=faults
            )
        else:
            document, nodes = check_sweep(source, has_image=has_image, project=project, faults=faults)
        return Job(document=document, directory=source.directory, file=source.file, code=None, nodes=nodes)
    if isinstance(given, ScalarNode) and word != "command" and given.kind == "text":
        # Another kind of job has other keys: a fault for each of them would hide the reason.
        JOB.keys["type"].shape.check(given, source.name("type"), faults)
        return None
    document = JOB.check(tree, source.prefix, faults)
    if not has_image and "environment" not in tree.entries:
        no_environment(replace(source, tree=tree), faults)
    code = check_code(tree, document, source, project, faults)
    check_inputs(tree, document, source, project, faults)
    check_environment(tree, source, project, faults)
    check_command(tree, source.prefix, faults)
    check_script(tree, code, faults, complete=not prepared)
    remark_inputs(tree, tree, code, faults)
    return Job(document=document, directory=source.directory, file=source.file, code=code)
