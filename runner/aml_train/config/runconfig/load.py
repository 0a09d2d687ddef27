"""Find and check run configurations, and translate them to command jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aml_train.config.job.grammar import JOB
from aml_train.config.job.model import Job, RunConfiguration
from aml_train.config.job.source import name_of, read_tree
from aml_train.config.overrides import Override, apply, apply_to_job
from aml_train.config.runconfig.grammar import ENVIRONMENT, OF_THE_JOB, RUNCONFIG, camel, normalised
from aml_train.config.runconfig.to_job import ToJob
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, ScalarNode, find
from aml_train.config.yaml.source import kind_of

FOLDERS: Final = (".azureml", "aml_config")
"""azureml-core's folders of run configurations in a project (``get_run_config_dir_name``)."""

SUFFIX: Final = ".runconfig"


@dataclass(frozen=True, kw_only=True)
class RunConfigSource:
    """A run configuration's tree, before it is checked.

    Attributes:
        tree: what was read.
        file: the file that holds it.
        directory: the source directory: what is sent as code, and what its paths start from.
        more: the keys of a command job that it has not.
    """

    tree: MapNode
    file: Path
    directory: Path
    more: Mapping[str, Entry] = field(default_factory=dict)


def source_directory(file: Path) -> Path:
    """Return the default folder of the code: the project, or the file's folder.

    The project is that of a file in ``.azureml``.
    """
    return file.parent.parent if file.parent.name in FOLDERS else file.parent


def candidates(directory: Path) -> tuple[Path, ...]:
    """Return the run configurations in azureml-core's folders."""
    return tuple(path for folder in FOLDERS for path in sorted((directory / folder).glob(f"*{SUFFIX}")))


def find_file(directory: Path, text: str) -> Path:
    """Return the file that *text* names: a path, or a name in ``.azureml``.

    ``RunConfiguration.load`` takes the same.
    """
    plain = directory / text
    if "/" in text or kind_of(plain)[0] != "missing":
        return plain
    for folder in (*FOLDERS, "."):
        for name in (text, text + SUFFIX):
            if kind_of(directory / folder / name)[0] == "file":
                return directory / folder / name
    return plain


def check_runconfig(
    source: RunConfigSource, overrides: Sequence[Override], *, has_image: bool, project: Path, faults: Faults
) -> Job | None:
    """Check a run configuration, and translate it to a command job.

    Args:
        source: where it was read from.
        overrides: changes of ``--set job.…``: by a job's keys if only a job has them, else by the configuration's.
        has_image: an image of ours replaces the environment.
        project: the folder that files are named from in faults.
        faults: takes the faults.

    Returns:
        The job; None if it is too wrong to check further.
    """
    own = [one for one in overrides if one.keys[0] not in OF_THE_JOB]
    tree = normalised(source.tree, RUNCONFIG, faults)
    changes = [
        Override(keys=tuple(map(camel, one.keys[:1])) + one.keys[1:], node=one.node, mark=one.mark) for one in own
    ]
    if not isinstance(tree, MapNode):  # pragma: no cover - a mapping stays one
        return None
    tree = _with_environment(apply_to_job(tree, changes, faults), source, project, faults)
    before = len(faults)
    values = {key: value for key, value in RUNCONFIG.check(tree, "", faults).items() if value is not None}
    if len(faults) > before:
        return None
    translation = ToJob(tree=tree, values=values, directory=source.directory, faults=faults)
    document = translation.document(has_image=has_image)
    given = MapNode(mark=source.tree.mark, entries=dict(source.more))
    more = apply(given, [one for one in overrides if one.keys[0] in OF_THE_JOB], faults)
    for key, entry in more.entries.items():
        document[key] = JOB.keys[key].shape.check(entry.node, key, faults)
    runconfig = RunConfiguration(values=values, command=translation.command() if not faults else "")
    return Job(
        document=document, directory=source.directory, file=source.file, code=source.directory, runconfig=runconfig
    )


def _with_environment(tree: MapNode, source: RunConfigSource, project: Path, faults: Faults) -> MapNode:
    """Replace an environment that is the path of a file by the file's content."""
    node = find(tree, "environment")
    if not isinstance(node, ScalarNode) or node.kind != "text":
        return tree
    path = source.directory / node.text
    read = read_tree(path, node.mark, name_of(path, project), faults)
    inner = None if read is None else normalised(read, ENVIRONMENT, faults)
    entries = dict(tree.entries)
    if inner is None:
        del entries["environment"]
    else:
        entries["environment"] = Entry(mark=node.mark, node=inner)
    return MapNode(mark=tree.mark, entries=entries)
