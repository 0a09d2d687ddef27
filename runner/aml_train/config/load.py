"""Load the configuration: find the files, read them, check them, and make values of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aml_train.config.assemble import (
    check_together,
    choose_target,
    cost_config,
    model_config,
    notices,
    retry_config,
    tests_config,
    wait_config,
)
from aml_train.config.document import DOCUMENT
from aml_train.config.job.command_line import MARK, CommandLine, command_source
from aml_train.config.job.load import JobSource, check_job, may_be_sent, name_of, read_tree
from aml_train.config.model import CommandJob, Config
from aml_train.config.overrides import Overrides, apply, parse_overrides
from aml_train.config.runconfig.grammar import OF_THE_JOB, is_runconfig
from aml_train.config.runconfig.load import (
    SUFFIX,
    RunConfigSource,
    candidates,
    check_runconfig,
    find_file,
    source_directory,
)
from aml_train.config.sections.compute import check_nodes
from aml_train.config.sections.gate import baseline_config, check_gate, gate_rules
from aml_train.config.sections.image_assemble import image_config
from aml_train.config.sections.model import check_promote, stage_policies
from aml_train.config.sections.sending import code_config, data_links, setup_commands
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, Mark, ScalarNode, find, place, shown
from aml_train.config.yaml.shapes import Anything
from aml_train.config.yaml.source import absolute, kind_of
from aml_train.config.yaml.structures import Key
from aml_train.config.yaml.tree import parse
from aml_train.core.errors import InvalidError

NAMES: Final = ("aml-train.yml", "aml-train.yaml")
JOB_NAMES: Final = ("job.yml", "job.yaml")
# The job is read and checked by itself, whether it stands inline or in a file of its own.
_DOCUMENT: Final = replace(
    DOCUMENT, one_of=(), keys={**DOCUMENT.keys, "job": Key(Anything(), DOCUMENT.keys["job"].text)}
)


def load_config(
    path: Path | None,
    *,
    directory: Path,
    target: str | None = None,
    sets: Sequence[str] = (),
    job: Path | None = None,
) -> Config:
    """Load and check the configuration.

    Args:
        path: an aml-train.yml, or the YAML of a command job; None for the one in *directory*.
        directory: where to look, and what relative paths of the arguments and names in complaints start from.
        target: the target's name, instead of that in the file.
        sets: changes as ``key=value``.
        job: the YAML of the job, instead of that in the file.

    Returns:
        The configuration.

    Raises:
        InvalidError: with every fault that was found, by file and line.
    """
    faults = Faults()
    base = absolute(directory)
    overrides = parse_overrides(sets, faults)
    loader = _Loader(base=base, faults=faults, overrides=overrides)
    config = loader.load(path, target=target, job=job)
    faults.raise_if_any()
    if config is None:  # pragma: no cover - a part is missing only after a complaint
        raise AssertionError("the configuration is incomplete without a complaint")
    return config


def load_command(
    path: Path | None, given: CommandLine, *, directory: Path, target: str | None = None, sets: Sequence[str] = ()
) -> Config:
    """Load the configuration around a command that is given on the command line.

    Args:
        path: an aml-train.yml, or the YAML of a command job; None for the one in *directory*, if there is one.
        given: the command.
        directory: the folder that is sent as code, and what relative paths of the arguments start from.
        target: the target's name, instead of that in the file.
        sets: changes as ``key=value``.

    Raises:
        InvalidError: with every fault that was found.
    """
    faults = Faults()
    base = absolute(directory)
    overrides = parse_overrides(sets, faults)
    loader = _Loader(base=base, faults=faults, overrides=overrides, own_compute=bool(given.compute))
    config = loader.load_command(path, given, target=target)
    faults.raise_if_any()
    if config is None:  # pragma: no cover - a part is missing only after a complaint
        raise AssertionError("the configuration is incomplete without a complaint")
    return config


def check_text(text: str, name: str, *, directory: Path) -> Config:
    """Check the text of an aml-train.yml that is not written yet.

    Args:
        text: what the file would hold.
        name: its name in complaints.
        directory: the folder that it would stand in.

    Raises:
        InvalidError: with every fault that was found, also in the job that it names.
    """
    faults = Faults()
    base = absolute(directory)
    loader = _Loader(base=base, faults=faults, overrides=parse_overrides((), faults))
    node = parse(text, name, faults)
    faults.raise_if_any()
    if not isinstance(node, MapNode):
        raise InvalidError(f"{name} must be a mapping of keys to values.")
    config = loader.build(node, base / name, base, None, None)
    faults.raise_if_any()
    if config is None:  # pragma: no cover - a part is missing only after a complaint
        raise AssertionError("the configuration is incomplete without a complaint")
    return config


@dataclass(frozen=True, kw_only=True)
class _Loader:
    base: Path
    faults: Faults
    overrides: Overrides
    own_compute: bool = False
    """Whether the command line names the compute, in the place of the target's."""

    def load(self, path: Path | None, *, target: str | None, job: Path | None) -> Config | None:
        """Read the files and check everything; None after a complaint that leaves no configuration."""
        here = [name for name in NAMES if kind_of(self.base / name)[0] != "missing"]
        if (
            path is None
            and job is None
            and not here
            and any("runconfig" in one.keys[:1] for one in self.overrides.document)
        ):
            return self.build(MapNode(mark=Mark(file=NAMES[0]), entries={}), None, self.base, None, target)
        file, is_job = self.locate(path, job)
        if file is None:
            return None
        name = name_of(file, self.base)
        tree = read_tree(file, Mark(file=name), name, self.faults)
        if tree is None:
            return None
        if is_job or (job is None and looks_like_job(tree)):
            source = job_source_of(tree, file)
            project = source.directory if isinstance(source, RunConfigSource) else file.parent
            return self.build(MapNode(mark=tree.mark, entries={}), None, project, source, target)
        if job is not None:
            mark = Mark(file="--job")
            node = ScalarNode(mark=mark, text=str(absolute(self.base / job)), kind="text", value=str(job))
            kept = {key: entry for key, entry in tree.entries.items() if key != "runconfig"}
            tree = MapNode(mark=tree.mark, entries={**kept, "job": Entry(mark=mark, node=node)})
        return self.build(tree, file, file.parent, None, target)

    def load_command(self, path: Path | None, given: CommandLine, *, target: str | None) -> Config | None:
        """Read the file, if there is one, and put the command into its job's place."""
        nowhere = path is None and not any((self.base / name).exists() for name in (*NAMES, *JOB_NAMES))
        file, configured = None, None
        tree = MapNode(mark=Mark(file=NAMES[0]), entries={})
        if not nowhere:
            file, _ = self.locate(path, None)
            name = "" if file is None else name_of(file, self.base)
            read = None if file is None else read_tree(file, Mark(file=name), name, self.faults)
            if file is None or read is None:
                return None
            if looks_like_job(read):
                configured, file = JobSource(tree=read, file=file, directory=file.parent), None
            else:
                tree = read
                found = self.job_source(tree, file, file.parent) if "job" in tree.entries else None
                configured = found if isinstance(found, JobSource) else None
        put_aside = {"job", "runconfig", "model"} | (set() if given.gate else {"gate"})
        own_place = bool(given.image or given.environment)
        if own_place:
            put_aside |= {"image", "tests"}
        source = command_source(given, configured, self.base, self.faults)
        if "image" not in tree.entries and "environment" not in source.tree.entries:
            remedy = "give --image IMAGE or --environment NAME, or write `image` into aml-train.yml"
            self.faults.add(MARK, "nothing says where the command runs", remedy=remedy)
            return None
        entries = {key: entry for key, entry in tree.entries.items() if key not in put_aside}
        config = self.build(replace(tree, entries=entries), file, self.base, source, target)
        if config is not None and given.compute:
            compute = given.compute.removeprefix("azureml:")
            config = replace(config, target=replace(config.target, compute=compute))
        return config

    def locate(self, path: Path | None, job: Path | None) -> tuple[Path | None, bool]:
        """Find the file to read; the second part tells that it is a job's."""
        if path is not None:
            return absolute(self.base / path), False
        here = [self.base / name for name in NAMES if kind_of(self.base / name)[0] != "missing"]
        if len(here) == 1:
            return here[0], False
        if here:
            mark = Mark(file=NAMES[1])
            self.faults.add(mark, f"both `{NAMES[0]}` and `{NAMES[1]}` are here", remedy="keep one, or name it")
            return None, False
        if job is not None:
            return absolute(self.base / job), True
        jobs = [self.base / name for name in JOB_NAMES if kind_of(self.base / name)[0] != "missing"]
        if len(jobs) == 1:
            return jobs[0], True
        runconfigs = () if jobs else candidates(self.base)
        if len(runconfigs) == 1:
            return runconfigs[0], True
        if runconfigs:
            names = ", ".join(f"`{shown(name_of(path, self.base))}`" for path in runconfigs[:5])
            remedy = "name one: `runconfig: …` in aml-train.yml, or --config"
            self.faults.add(Mark(file=NAMES[0]), f"there are several run configurations: {names}", remedy=remedy)
            return None, False
        what = "both `job.yml` and `job.yaml` are here" if jobs else f"neither it nor a job.yml is in `{self.base}`"
        self.faults.add(Mark(file=NAMES[0]), what, remedy="write an aml-train.yml, or name the file")
        return None, False

    def build(
        self,
        tree: MapNode,
        file: Path | None,
        directory: Path,
        source: JobSource | RunConfigSource | None,
        target: str | None,
    ) -> Config | None:
        """Check the tree of aml-train.yml, and the job that it names or that *source* holds."""
        faults = self.faults
        tree = apply(tree, self.overrides.document, faults)
        has_image = "image" in tree.entries
        if "runconfig" in tree.entries:
            if "job" in tree.entries:
                mark = place(tree, "runconfig")
                faults.add(mark, "`job` and `runconfig` exclude each other", remedy="keep one")
            source = self.runconfig_source(tree, directory)
        elif "job" in tree.entries:
            source = self.job_source(tree, file, directory)
        elif source is None:
            remedy = "name a command job's YAML: `job: job.yml`"
            faults.add(tree.mark, "the key `job` is missing", remedy=remedy)
        values = _DOCUMENT.check(tree, "", faults)
        job = None
        if source is not None:
            job = self.check_source(source, has_image=has_image, sdk=values.get("sdk"))
        image = image_config(tree, values, directory, faults)
        check_together(tree, values, job, faults)
        links = data_links(tree, values.get("data") or {}, faults)
        chosen = choose_target(tree, values, target, directory=directory, faults=faults)
        check_gate(tree, faults)
        check_promote(tree, faults)
        if job is not None and chosen is not None and not self.own_compute:
            check_nodes(tree, chosen, job.document, faults)
        rules = () if faults else gate_rules(tree)
        baseline = baseline_config(tree, values.get("baseline"), rules, directory, faults)
        if faults or job is None or chosen is None:
            return None
        return Config(
            file=file,
            directory=directory,
            job=job,
            image=image,
            tests=tests_config(values.get("tests")),
            gate=rules,
            baseline=baseline,
            model=model_config(values.get("model")),
            promote=stage_policies(tree, values),
            target=chosen,
            watch=wait_config(values.get("watch") or {}),
            retry=retry_config(values.get("retry") or {}),
            cost=cost_config(tree, values.get("cost") or {}),
            code=code_config(values.get("code") or {}),
            setup=setup_commands(tree),
            data=links,
            sdk=values.get("sdk"),
            overrides=self.overrides.values,
            notices=notices(job, image),
        )

    def check_source(
        self, source: JobSource | RunConfigSource, *, has_image: bool, sdk: str | None
    ) -> CommandJob | None:
        """Check the job with its overrides; None where it is too wrong for that."""
        changes, faults = self.overrides.job, self.faults
        if isinstance(source, RunConfigSource):
            return check_runconfig(source, changes, has_image=has_image, project=self.base, faults=faults)
        job = check_job(source, changes, has_image=has_image, project=self.base, faults=faults)
        # Only what is whole can be translated: a value that no YAML can hold was told of when the file was read, and is not in the document.
        if sdk != "v1" or job is None or faults:
            return job
        from aml_train.config.runconfig.from_job import runconfig_of

        tree = apply(source.tree, changes, faults)
        return replace(
            job, runconfig=runconfig_of(tree, job.document, source.prefix, has_image=has_image, faults=faults)
        )

    def runconfig_source(self, tree: MapNode, directory: Path) -> RunConfigSource | None:
        """Read the run configuration that the key `runconfig` names; None after a complaint."""
        given = find(tree, "runconfig")
        node = find(given, "file") if isinstance(given, MapNode) else given
        if not isinstance(node, ScalarNode) or node.kind != "text":
            return None
        path = absolute(find_file(directory, node.text))
        inner = read_tree(path, node.mark, name_of(path, self.base), self.faults)
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

    def job_source(self, tree: MapNode, file: Path | None, directory: Path) -> JobSource | RunConfigSource | None:
        """Read the job that the key `job` names or holds; None after a complaint."""
        node = find(tree, "job")
        if isinstance(node, MapNode):
            inline = MapNode(mark=place(tree, "job"), entries=node.entries)
            return JobSource(tree=inline, file=file or directory, directory=directory, prefix="job")
        text = DOCUMENT.keys["job"].shape.check(node, "job", self.faults) if node is not None else None
        if not isinstance(text, str) or not isinstance(node, ScalarNode):
            return None
        path = absolute(directory / text)
        inner = read_tree(path, node.mark, name_of(path, self.base), self.faults)
        return None if inner is None else job_source_of(inner, path)


def job_source_of(tree: MapNode, file: Path) -> JobSource | RunConfigSource:
    """Return what a file holds: a command job, or a run configuration of the SDK v1."""
    if file.suffix == SUFFIX or is_runconfig(tree):
        return RunConfigSource(tree=tree, file=file, directory=source_directory(file))
    return JobSource(tree=tree, file=file, directory=file.parent)


def looks_like_job(tree: MapNode) -> bool:
    """Tell whether a file is the YAML of a job rather than an aml-train.yml."""
    keys = set(tree.entries)
    if keys & {"job", "image", "runconfig"}:
        return False
    # `target` is a key of an aml-train.yml as well.
    signs = is_runconfig(MapNode(mark=tree.mark, entries={k: v for k, v in tree.entries.items() if k != "target"}))
    return signs or bool(keys & {"command", "jobs"} or {"$schema", "type"} <= keys)
