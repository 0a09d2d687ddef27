"""Load the configuration, whole or in part, from files to checked values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from aml_train.config.document import DOCUMENT
from aml_train.config.job.command_line import MARK, CommandLine, command_source
from aml_train.config.job.load import check_job
from aml_train.config.job.model import Job
from aml_train.config.job.script import remark_metrics
from aml_train.config.job.source import JobSource
from aml_train.config.model import Config
from aml_train.config.overrides import Overrides, apply, parse_overrides
from aml_train.config.runconfig.load import RunConfigSource, check_runconfig
from aml_train.config.section import CheckedTree, make
from aml_train.config.sections.code import CodeConfig, data_config, data_links, setup_commands
from aml_train.config.sections.gate import baseline_config, check_gate, gate_rules
from aml_train.config.sections.graph import check_graph
from aml_train.config.sections.image import ImageConfig, image_config
from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.config.sections.images import check_builder, node_images
from aml_train.config.sections.model import (
    StagePolicies,
    StagePolicy,
    check_output,
    check_promote,
    model_config,
    stage_policies,
)
from aml_train.config.sections.passport import PassportConfig, check_requirements, passport_config
from aml_train.config.sections.replicates import replicates_config
from aml_train.config.sections.stop import stop_config
from aml_train.config.sections.targets import TargetConfig, check_nodes, choose_target
from aml_train.config.sections.tests import tests_config
from aml_train.config.sections.watch import RetryConfig, WatchConfig, cost_config, resume_config
from aml_train.config.sources import JOB_NAMES, NAMES, Reader, looks_like_job, present, source_of
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, Mark, ScalarNode, find, place, shown
from aml_train.config.yaml.shapes import Anything
from aml_train.config.yaml.source import absolute
from aml_train.config.yaml.structures import Key, Record
from aml_train.config.yaml.tree import parse
from aml_train.core.errors import InvalidError

T = TypeVar("T")

# The job is read and checked separately, whether it is inline or in a file.
_DOCUMENT: Final = replace(
    DOCUMENT, one_of=(), keys={**DOCUMENT.keys, "job": Key(Anything(), DOCUMENT.keys["job"].text)}
)
_OF_TARGETS: Final = ("target", "targets")
_OF_PROMOTION: Final = (*_OF_TARGETS, "gate", "baseline", "model", "promote", "passport")


def load_config(
    path: Path | None,
    *,
    directory: Path,
    target: str | None = None,
    sets: Sequence[str] = (),
    job: Path | None = None,
    check: Callable[[ImageConfig, Path], object] | None = None,
) -> Config:
    """Load and check the configuration.

    Args:
        path: an aml-train.yml, or the YAML of a command job; None for the one in *directory*.
        directory: the folder that relative paths of the arguments and names in faults start from.
        target: the target's name, instead of that in the file.
        sets: changes as ``key=value``.
        job: the YAML of the job, instead of that in the file.
        check: checks the files of each image in a project, if other parts have faults: all are reported at once.

    Raises:
        InvalidError: with every fault that was found, by file and line.
    """
    loader = replace(_loader(directory, sets), check=check)

    def at(move: Callable[[Path], Path]) -> Config:
        moved = [None if one is None else move(one) for one in (path, job)]
        return load_config(moved[0], directory=move(directory), target=target, sets=sets, job=moved[1])

    return replace(_complete(loader.load(path, target=target, job=job), loader.faults), at=at)


def load_command(
    path: Path | None, given: CommandLine, *, directory: Path, target: str | None = None, sets: Sequence[str] = ()
) -> Config:
    """Load the configuration around a command of the command line.

    Args:
        path: an aml-train.yml, or the YAML of a command job; None for the one in *directory*, if there is one.
        given: the command.
        directory: the folder that is sent as code, and that relative paths of the arguments start from.
        target: the target's name, instead of that in the file.
        sets: changes as ``key=value``.

    Raises:
        InvalidError: with every fault that was found.
    """
    loader = replace(_loader(directory, sets), own_compute=bool(given.compute))

    def at(move: Callable[[Path], Path]) -> Config:
        moved = None if path is None else move(path)
        return load_command(moved, given, directory=move(directory), target=target, sets=sets)

    return replace(_complete(loader.load_command(path, given, target=target), loader.faults), at=at)


def check_text(text: str, name: str, *, directory: Path) -> Config:
    """Check the text of an aml-train.yml that is not written yet.

    Args:
        text: the content of the file.
        name: its name in faults.
        directory: its folder.

    Raises:
        InvalidError: with every fault that was found, also in the job that it names.
    """
    loader = _loader(directory)
    node = parse(text, name, loader.faults)
    loader.faults.raise_if_any()
    if not isinstance(node, MapNode):
        raise InvalidError(f"{name} must be a mapping of keys to values.")
    return _complete(loader.build(node, loader.base / name, loader.base, None, None), loader.faults)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The targets of a configuration; *directory* is its folder, absolute."""

    directory: Path
    tree: MapNode

    def named(self, name: str | None) -> TargetConfig:
        """Return the target *name*; None for the configuration's own, else ``local``.

        Raises:
            InvalidError: there is none of that name, or ``target`` or ``targets`` has a fault.
        """
        checked = self.checked(_OF_TARGETS)
        return _complete(choose_target(checked, name), checked.faults)

    def names(self, key: str) -> tuple[str, ...]:
        """Return the names that the file defines below *key*, unchecked."""
        entry = self.tree.entries.get(key)
        return tuple(entry.node.entries) if entry is not None and isinstance(entry.node, MapNode) else ()

    def checked(self, keys: Sequence[str]) -> CheckedTree:
        """Check some keys of the file; the others are missing in the result."""
        faults, part = Faults(), Record(noun=DOCUMENT.noun, keys={key: DOCUMENT.keys[key] for key in keys})
        tree = replace(self.tree, entries={key: self.tree.entries[key] for key in keys if key in self.tree.entries})
        values = part.check(tree, "", faults)
        return CheckedTree(tree=tree, values=values, directory=self.directory, faults=faults)


@dataclass(frozen=True, kw_only=True)
class PromotionConfig:
    """The parts of a configuration that a promotion needs.

    Attributes:
        directory: the folder of the file, absolute.
        target: the workspace.
        model: the name under ``model``; None if there is none.
        promote: what a model must meet in each stage.
        passport: whose signatures count.
        project: loads the whole configuration, of which the jobs of models are proved.
    """

    directory: Path
    target: TargetConfig
    project: Callable[[], Config]
    model: str | None = None
    promote: StagePolicies = field(default_factory=StagePolicies)
    passport: PassportConfig = field(default_factory=PassportConfig)


def load_targets(path: Path | None, *, directory: Path) -> Targets:
    """Read ``target`` and ``targets`` of the configuration, and no other keys.

    Args:
        path: the aml-train.yml; None for the one in *directory*, if there is any.
        directory: where to look.

    Raises:
        InvalidError: the file cannot be read, or is no mapping.
    """
    base = absolute(directory)
    file = absolute(base / path) if path is not None else next(iter(present(base)), None)
    if file is None:
        return Targets(directory=base, tree=MapNode(mark=Mark(file=NAMES[0]), entries={}))
    reader = Reader(base=base, faults=Faults())
    return Targets(directory=file.parent, tree=_complete(reader.read(file), reader.faults))


def load_passport(path: Path | None, *, directory: Path) -> PassportConfig:
    """Read ``passport`` of the configuration, and no other keys.

    Args:
        path: the aml-train.yml; None for the one in *directory*, if there is any.
        directory: where to look.

    Raises:
        InvalidError: the file cannot be read, or the key has a fault.
    """
    checked = load_targets(path, directory=directory).checked(("passport",))
    return _complete(passport_config(checked), checked.faults)


def load_promotion(path: Path | None, *, directory: Path, target: str | None) -> PromotionConfig:
    """Read what promoting a model needs: the target, the model and the rules.

    Args:
        path: the aml-train.yml; None for the one in *directory*.
        directory: where to look.
        target: the target's name, instead of that in the file.

    Raises:
        InvalidError: there is no such file, or these keys have a fault.
    """
    base = absolute(directory)
    if path is None and not present(base):
        raise InvalidError(
            f"There is no {NAMES[0]} in {shown(str(base), 200)}: nothing says what a model must meet.",
            hint="Name the folder with -C, or the file with --config, or write one with `aml-train init`; `promote: {production: {gate: …}}` is the policy.",
        )
    checked = load_targets(path, directory=directory).checked(_OF_PROMOTION)
    chosen = choose_target(checked, target)
    check_gate(checked.tree, checked.faults)
    check_promote(checked)
    passport = passport_config(checked)
    check_requirements(checked, _demanding(checked))
    chosen = _complete(chosen, checked.faults)
    model = model_config(checked)
    return PromotionConfig(
        directory=checked.directory,
        target=chosen,
        project=lambda: load_config(path, directory=base, target=target),
        model=model.name if model is not None else None,
        promote=stage_policies(checked),
        passport=passport,
    )


def _demanding(checked: CheckedTree) -> Mapping[str, StagePolicy]:
    """Return the stages that require something.

    With faults, of which no policy can be made, there are none.
    """
    if checked.faults:
        return {}
    return {name: policy for name, policy in stage_policies(checked).named.items() if policy.require}


def _complete(made: T | None, faults: Faults) -> T:
    """Return what was made; raise InvalidError with every fault, if there is one."""
    faults.raise_if_any()
    if made is None:  # pragma: no cover - a part is missing only after a fault
        raise AssertionError("the configuration is incomplete without a fault")
    return made


def _loader(directory: Path, sets: Sequence[str] = ()) -> _Loader:
    faults = Faults()
    return _Loader(base=absolute(directory), faults=faults, overrides=parse_overrides(sets, faults))


@dataclass(frozen=True, kw_only=True)
class _Loader(Reader):
    """Loads one configuration.

    *own_compute*: the command line names the compute, instead of the target.
    """

    overrides: Overrides
    own_compute: bool = False
    check: Callable[[ImageConfig, Path], object] | None = None

    def load(self, path: Path | None, *, target: str | None, job: Path | None) -> Config | None:
        """Read the files and check everything; None after a fault."""
        by_option = any("runconfig" in one.keys[:1] for one in self.overrides.document)
        if path is None and job is None and by_option and not present(self.base):
            return self.build(MapNode(mark=Mark(file=NAMES[0]), entries={}), None, self.base, None, target)
        file, is_job = self.locate(path, job)
        tree = self.read(file) if file is not None else None
        if file is None or tree is None:
            return None
        if is_job or (job is None and looks_like_job(tree)):
            source = source_of(tree, file)
            project = source.directory if isinstance(source, RunConfigSource) else file.parent
            return self.build(MapNode(mark=tree.mark, entries={}), None, project, source, target)
        if job is not None:
            mark = Mark(file="--job")
            node = ScalarNode(mark=mark, text=str(absolute(self.base / job)), kind="text", value=str(job))
            kept = {key: entry for key, entry in tree.entries.items() if key != "runconfig"}
            tree = MapNode(mark=tree.mark, entries={**kept, "job": Entry(mark=mark, node=node)})
        return self.build(tree, file, file.parent, None, target)

    def load_command(self, path: Path | None, given: CommandLine, *, target: str | None) -> Config | None:
        """Read the file, if there is one, and put the command in the place of its job."""
        file, configured = None, None
        tree = MapNode(mark=Mark(file=NAMES[0]), entries={})
        if path is not None or any((self.base / name).exists() for name in (*NAMES, *JOB_NAMES)):
            file, _ = self.locate(path, None)
            read = self.read(file) if file is not None else None
            if file is None or read is None:
                return None
            if looks_like_job(read):
                configured, file = JobSource(tree=read, file=file, directory=file.parent), None
            else:
                tree = read
                found = self.job(tree, file, file.parent) if "job" in tree.entries else None
                configured = found if isinstance(found, JobSource) else None
        put_aside = {"job", "runconfig", "model", "replicates"} | (set() if given.gate else {"gate"})
        if given.image or given.environment:
            put_aside |= {"image", "images", "tests"}
        source = command_source(given, configured, self.base, self.faults)
        if "image" not in tree.entries and "environment" not in source.tree.entries:
            remedy = "give --image IMAGE or --environment NAME, or write `image` into aml-train.yml"
            self.faults.add(MARK, "nothing says where the command runs", remedy=remedy)
            return None
        entries = {key: entry for key, entry in tree.entries.items() if key not in put_aside}
        if not given.gate and isinstance(watch := find(tree, "watch"), MapNode):
            kept = {key: entry for key, entry in watch.entries.items() if key != "stop"}
            entries["watch"] = replace(entries["watch"], node=replace(watch, entries=kept))
        config = self.build(replace(tree, entries=entries), file, self.base, source, target)
        if config is not None and given.compute:
            compute = given.compute.removeprefix("azureml:")
            config = replace(config, target=replace(config.target, compute=compute))
        return config

    def build(
        self,
        tree: MapNode,
        file: Path | None,
        directory: Path,
        source: JobSource | RunConfigSource | None,
        target: str | None,
    ) -> Config | None:
        """Check aml-train.yml, and the job that it names or that *source* holds."""
        faults = self.faults
        tree = apply(tree, self.overrides.document, faults)
        if "runconfig" in tree.entries:
            if "job" in tree.entries:
                faults.add(place(tree, "runconfig"), "`job` and `runconfig` exclude each other", remedy="keep one")
            source = self.runconfig(tree, directory)
        elif "job" in tree.entries:
            source = self.job(tree, file, directory)
        elif source is None:
            faults.add(tree.mark, "the key `job` is missing", remedy="name a command job's YAML: `job: job.yml`")
        checked = CheckedTree(tree=tree, values=_DOCUMENT.check(tree, "", faults), directory=directory, faults=faults)
        job = self.check_source(source, checked) if source is not None else None
        return self.assemble(checked, file, job, target)

    def check_source(self, source: JobSource | RunConfigSource, checked: CheckedTree) -> Job | None:
        """Check the job with its overrides; None if it is too wrong for that."""
        changes, faults, has_image = self.overrides.job, self.faults, checked.has("image")
        if isinstance(source, RunConfigSource):
            return check_runconfig(source, changes, has_image=has_image, project=self.base, faults=faults)
        if checked.values.get("sdk") == "v1":
            remedy = "delete the key, or name a run configuration with `runconfig` instead of the job"
            checked.fault(
                "the SDK v1 submits run configurations, and this is a job of the CLI v2", "sdk", remedy=remedy
            )
        unchecked = checked.values.get("unchecked") is True
        return check_job(
            source,
            changes,
            has_image=has_image,
            project=self.base,
            faults=faults,
            unchecked=unchecked,
            prepared=checked.has("setup"),
        )

    def assemble(self, checked: CheckedTree, file: Path | None, job: Job | None, target: str | None) -> Config | None:
        """Make the sections; None after a fault."""
        faults, values = self.faults, checked.values
        image, tests, data = image_config(checked), tests_config(checked), data_links(checked)
        images = node_images(checked, BuilderConfig() if image is None else image.builder)
        check_builder(checked, image, tests)
        check_output(checked, job)
        if job is not None:
            check_graph(checked, job)
        chosen = choose_target(checked, target)
        check_gate(checked.tree, faults)
        remark_metrics(checked.tree, job.code if job is not None else None, faults)
        check_promote(checked)
        passport = passport_config(checked)
        check_requirements(checked, _demanding(checked))
        if job is not None and chosen is not None and not self.own_compute:
            check_nodes(checked, chosen, job.document)
        resume = resume_config(checked, job)
        rules = () if faults else gate_rules(checked.tree)
        baseline = baseline_config(checked, rules)
        replicates = replicates_config(checked, job, rules)
        stop = None if faults or job is None else stop_config(checked, rules, baseline, job)
        if faults and self.check is not None:
            for one in (image, *(one.image for one in images)):
                try:
                    if one is not None:
                        self.check(one, checked.directory)
                except InvalidError as error:
                    faults.take(error)
        if faults or job is None or chosen is None:
            return None
        replaced = image is not None and "environment" in job.document
        return Config(
            file=file,
            directory=checked.directory,
            job=job,
            image=image,
            tests=tests,
            images=images,
            gate=rules,
            baseline=baseline,
            replicates=replicates,
            model=model_config(checked),
            promote=stage_policies(checked),
            passport=passport,
            target=chosen,
            watch=make(WatchConfig, checked.section("watch"), stop=stop),
            retry=make(RetryConfig, checked.section("retry")),
            resume=resume,
            cost=cost_config(checked),
            code=make(CodeConfig, checked.section("code")),
            setup=setup_commands(checked),
            data=data,
            data_config=data_config(checked),
            sdk=values.get("sdk"),
            overrides=self.overrides.values,
            notices=(*(("The image replaces the job's `environment`.",) if replaced else ()), *faults.remarks),
        )
