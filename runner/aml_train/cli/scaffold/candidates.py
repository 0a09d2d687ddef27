"""Candidate jobs: of YAML files, and of scripts. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.entry_points import entry_points
from aml_train.cli.scaffold.graphs import Step, steps_of
from aml_train.cli.scaffold.job_environment import Environment, environment_of, joined
from aml_train.cli.scaffold.project import Document, Project
from aml_train.cli.scaffold.scripts import Read, Script, rank, script_of, training_scripts
from aml_train.cli.scaffold.submitted import is_submitter
from aml_train.config import ListNode, Mark, ScalarNode


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A job that the configuration may be for.

    Attributes:
        path: the file that defines it.
        what: its command, in short.
        code: the folder of its code.
        items: the job's keys, if no YAML has them.
        reads: files that its script reads.
        notes: findings that the user should know.
        steps: the nodes of a pipeline, or the trial of a sweep.
    """

    path: str
    kind: Literal["command", "graph", "runconfig", "script"]
    mark: Mark
    what: str
    code: str
    environment: Environment = field(default_factory=Environment)
    document: Document | None = None
    items: Sequence[Item] = ()
    reads: tuple[Read, ...] = ()
    notes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


def candidates(project: Project) -> list[Candidate]:
    """Return the jobs to choose from: those of the most certain kind that exists."""
    jobs = [_command(project, document) for document in project.of("command")]
    if jobs:
        return jobs
    graphs = [_graph(project, document) for document in project.of("pipeline", "sweep")]
    if graphs:
        return graphs
    configurations = [_runconfig(document) for document in project.of("runconfig")]
    if configurations:
        return configurations
    return _scripts(project)


def others_than(project: Project, chosen: Candidate) -> list[Candidate]:
    """Return the jobs of any kind other than one, the most certain first."""
    found = [
        *(_command(project, document) for document in project.of("command")),
        *(_graph(project, document) for document in project.of("pipeline", "sweep")),
        *(_runconfig(document) for document in project.of("runconfig")),
        *(_script(script_of(project, file)) for file in sorted(training_scripts(project), key=rank)),
    ]
    return [one for one in found if one.path != chosen.path]


def named(project: Project, path: str) -> list[Candidate]:
    """Return the jobs of a file, of any kind."""
    wanted = posixpath.normpath(path)
    for document in project.of("command", "pipeline", "sweep", "runconfig"):
        if document.path == wanted:
            return [_of_document(project, document)]
    files = (one for one in project.scripts if one.path == wanted and not is_submitter(one))
    return [_script(script_of(project, file)) for file in files]


def _of_document(project: Project, document: Document) -> Candidate:
    if document.kind == "command":
        return _command(project, document)
    return _runconfig(document) if document.kind == "runconfig" else _graph(project, document)


def job_item(candidate: Candidate, *, asked: bool) -> Item:
    """Return the key ``job`` or ``runconfig`` for a candidate."""
    if candidate.kind == "command":
        why = "the job that --job names" if asked else "the only command job here"
        return Item(key="job", value=candidate.path, why=why, origin=candidate.mark)
    if candidate.kind == "graph":
        noun = "pipeline" if candidate.steps and candidate.steps[0].name else "sweep"
        why = "the job that --job names" if asked else f"the only {noun} job here"
        return Item(key="job", value=candidate.path, why=why, origin=candidate.mark)
    if candidate.kind == "runconfig":
        why = "the run configuration that --job names" if asked else "the only run configuration of SDK v1 here"
        return Item(key="runconfig", value=candidate.path, why=why, origin=candidate.mark)
    why = "no job exists yet; this one runs the script"
    return Item(key="job", why=why, origin=candidate.mark, value=list(candidate.items))


# Command jobs


def _command(project: Project, document: Document) -> Candidate:
    code = document.said("code")
    local = code and not re.match(r"[a-z+]+:(?!\d)", code.removeprefix("file:"))
    return Candidate(
        path=document.path,
        kind="command",
        mark=document.mark("command"),
        what=" ".join(document.said("command").split())[:80],
        code=joined(document.folder, code) if local else document.folder or ".",
        environment=environment_of(project, document),
        document=document,
    )


# Pipelines and sweeps


def _graph(project: Project, document: Document) -> Candidate:
    """Return a pipeline or sweep, with the code and environment of one of its steps."""
    steps = steps_of(project, document)
    with_code = [step for step in steps if step.job.said("code")]
    chosen = next((step.job for step in with_code), steps[0].job if steps else document)
    named = next((step for step in steps if step.has_environment), None)
    code = chosen.said("code")
    where = named.job if named is not None and named.job.node("environment") is not None else None
    names = ", ".join(step.name for step in steps if step.name)
    return Candidate(
        path=document.path,
        kind="graph",
        mark=document.mark("jobs" if document.kind == "pipeline" else "trial"),
        what=(f"{len(steps)} nodes: {names}" if names else " ".join(chosen.said("command").split()))[:80],
        code=joined(chosen.folder, code) if code and ":" not in code else chosen.folder or ".",
        environment=environment_of(project, where or (named.node if named is not None else chosen)),
        document=chosen,
        steps=steps,
    )


# Run configurations of SDK v1


def _runconfig(document: Document) -> Candidate:
    # SDK v1 keeps them in `.azureml` or `aml_config` of the folder that it sends.
    folder = document.folder
    last = folder.rpartition("/")[2]
    code = folder.rpartition("/")[0] if last in (".azureml", "aml_config") else folder
    conda = document.said("environment", "python", "condaDependenciesFile")
    base = document.said("environment", "docker", "baseImage")
    key = "script" if document.said("script") else "command"
    return Candidate(
        path=document.path,
        kind="runconfig",
        mark=document.mark(key),
        what=_v1_command(document),
        code=code or ".",
        environment=Environment(
            base=(document.mark("environment", "docker", "baseImage"), base) if base else None,
            conda=(document.mark("environment", "python", "condaDependenciesFile"), joined(code, conda))
            if conda
            else None,
        ),
        document=document,
    )


def _v1_command(document: Document) -> str:
    words = [text for _, text in document.items("command")] or [document.said("command")]
    if any(words):
        return " ".join(words)
    arguments = document.node("arguments")
    given = (
        [item.text for item in arguments.items if isinstance(item, ScalarNode)]
        if isinstance(arguments, ListNode)
        else []
    )
    return shlex.join(["python", document.said("script"), *given])


# Scripts


def _scripts(project: Project) -> list[Candidate]:
    """Return the likeliest training script if one is, else all of them."""
    files = training_scripts(project)
    if not any(rank(file)[0] < 2 for file in files) and (commands := entry_points(project)):
        return [_script(one) for one in commands]
    ranks = sorted(rank(file) for file in files)
    clear = len(ranks) < 2 or ranks[0] != ranks[1]
    if len(files) > 1 and clear:
        chosen = min(files, key=rank)
        others = ", ".join(file.path for file in files if file is not chosen)
        note = f"{chosen.path}: a guess: it trains by its name; name another with --job: {others}"
        return [_script(script_of(project, chosen), (note,))]
    return [_script(script_of(project, file)) for file in files]


def _script(script: Script, notes: tuple[str, ...] = ()) -> Candidate:
    items = [
        Item(key="command", value=script.command, why=script.why),
        Item(key="code", value=script.code),
        Item(
            key="compute",
            value="azureml:cpu-cluster",
            why="a guess: the name of your cluster; the target `local` needs none",
        ),
    ]
    if script.inputs:
        items.append(Item(key="inputs", value=list(script.inputs)))
    if script.python_path:
        value = [Item(key="PYTHONPATH", value=script.python_path, why="the script imports from it")]
        items.append(Item(key="environment_variables", value=value))
    return Candidate(
        path=script.path,
        kind="script",
        mark=script.mark,
        what=script.command,
        code=script.code,
        items=items,
        reads=script.reads,
        notes=(*notes, *script.notes),
    )
