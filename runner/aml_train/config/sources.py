"""Find and read the files of the configuration: aml-train.yml and the job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.config.document import DOCUMENT
from aml_train.config.job.paths import may_be_sent
from aml_train.config.job.source import JobSource, name_of, read_tree
from aml_train.config.runconfig.grammar import OF_THE_JOB, is_runconfig
from aml_train.config.runconfig.load import SUFFIX, RunConfigSource, candidates, find_file, source_directory
from aml_train.config.yaml.nodes import Faults, MapNode, Mark, ScalarNode, find, place, shown
from aml_train.config.yaml.source import absolute, kind_of

NAMES: Final = ("aml-train.yml", "aml-train.yaml")
JOB_NAMES: Final = ("job.yml", "job.yaml")


def present(directory: Path, names: tuple[str, ...] = NAMES) -> list[Path]:
    """Return the paths of *directory* that have one of *names*."""
    return [directory / name for name in names if kind_of(directory / name)[0] != "missing"]


def looks_like_job(tree: MapNode) -> bool:
    """Return whether a file is the YAML of a job rather than an aml-train.yml."""
    keys = set(tree.entries)
    if keys & {"job", "image", "runconfig"}:
        return False
    # `target` is a key of an aml-train.yml as well.
    signs = is_runconfig(MapNode(mark=tree.mark, entries={k: v for k, v in tree.entries.items() if k != "target"}))
    return signs or bool(keys & {"command", "component", "jobs", "trial", "type"})


def source_of(tree: MapNode, file: Path) -> JobSource | RunConfigSource:
    """Return the content of a file: a command job, or a run configuration."""
    if file.suffix == SUFFIX or is_runconfig(tree):
        return RunConfigSource(tree=tree, file=file, directory=source_directory(file))
    return JobSource(tree=tree, file=file, directory=file.parent)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads the user's files.

    *base* is the folder that relative paths and names in faults start from.
    """

    base: Path
    faults: Faults

    def read(self, file: Path, mark: Mark | None = None) -> MapNode | None:
        """Read a YAML file that *mark* names, or that was found; None after a fault."""
        name = name_of(file, self.base)
        return read_tree(file, mark or Mark(file=name), name, self.faults)

    def locate(self, path: Path | None, job: Path | None) -> tuple[Path | None, bool]:
        """Find the file to read, None after a fault; and whether it is a job's."""
        if path is not None:
            return absolute(self.base / path), False
        here = present(self.base)
        if len(here) == 1:
            return here[0], False
        if here:
            what = f"both `{NAMES[0]}` and `{NAMES[1]}` are here"
            self.faults.add(Mark(file=NAMES[1]), what, remedy="keep one, or name it")
            return None, False
        if job is not None:
            return absolute(self.base / job), True
        jobs = present(self.base, JOB_NAMES)
        runconfigs = () if jobs else candidates(self.base)
        if len(jobs) + len(runconfigs) == 1:
            return (*jobs, *runconfigs)[0], True
        if runconfigs:
            names = ", ".join(f"`{shown(name_of(path, self.base))}`" for path in runconfigs[:5])
            remedy = "name one: `runconfig: …` in aml-train.yml, or --config"
            self.faults.add(Mark(file=NAMES[0]), f"there are several run configurations: {names}", remedy=remedy)
            return None, False
        what = "both `job.yml` and `job.yaml` are here" if jobs else f"neither it nor a job.yml is in `{self.base}`"
        remedy = "keep one, or name it" if jobs else "write one with `aml-train init`, or name the file"
        self.faults.add(Mark(file=NAMES[0]), what, remedy=remedy)
        return None, False

    def job(self, tree: MapNode, file: Path | None, directory: Path) -> JobSource | RunConfigSource | None:
        """Read the job that the key `job` names or holds; None after a fault."""
        node = find(tree, "job")
        if isinstance(node, MapNode):
            inline = MapNode(mark=place(tree, "job"), entries=node.entries)
            return JobSource(tree=inline, file=file or directory, directory=directory, prefix="job")
        text = DOCUMENT.keys["job"].shape.check(node, "job", self.faults) if node is not None else None
        if not isinstance(text, str) or not isinstance(node, ScalarNode):
            return None
        path = absolute(directory / text)
        inner = self.read(path, node.mark)
        return None if inner is None else source_of(inner, path)

    def runconfig(self, tree: MapNode, directory: Path) -> RunConfigSource | None:
        """Read the run configuration that the key `runconfig` names; None after a fault."""
        given = find(tree, "runconfig")
        node = find(given, "file") if isinstance(given, MapNode) else given
        if not isinstance(node, ScalarNode) or node.kind != "text":
            return None
        path = absolute(find_file(directory, node.text))
        inner = self.read(path, node.mark)
        if inner is None:
            return None
        entries = given.entries if isinstance(given, MapNode) else {}
        folder, source = source_directory(path), find(given, "source-directory")
        if isinstance(source, ScalarNode) and source.kind == "text":
            folder = absolute(directory / source.text)
            if kind_of(folder)[0] != "folder":
                what = f"`runconfig.source-directory` names `{shown(source.text)}`"
                self.faults.add(source.mark, what, why="it is no folder there")
            else:
                may_be_sent(source.mark, "runconfig.source-directory", directory, source.text, self.base, self.faults)
        more = {key: entry for key, entry in entries.items() if key in OF_THE_JOB}
        return RunConfigSource(tree=inner, file=path, directory=folder, more=more)
