"""The plan: what a run will do, as values. Pure.

``aml-train plan`` prints it and :mod:`aml_train.pipeline.run` executes it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aml_train.config.job.model import JobNode, mapping_at
from aml_train.config.model import Config
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.tests import TestsConfig
from aml_train.core.files import FileSet
from aml_train.core.git import Origin
from aml_train.core.release_tags import DEFAULT_TAGS, release_tags
from aml_train.core.tags import Tag
from aml_train.core.trust import PROTECTED, Trust
from aml_train.core.version import __version__
from aml_train.image.inputs import BaseImage
from aml_train.image.spec import CheckPolicy, ImageSpec, Release, TestSpec, plan_image
from aml_train.jobs.data import input_name
from aml_train.jobs.placement import NodeKind, placement_of, placements_of, spot_remark
from aml_train.jobs.setup import add_setup
from aml_train.jobs.spec import JobTemplate, NodesImage, TargetNames, job_name, stem_of, with_input
from aml_train.pipeline.plan_graph import job_document
from aml_train.pipeline.project_name import ProjectName, folder_project
from aml_train.pipeline.resolve import Commit, Resolved
from aml_train.pipeline.run_files import secret_files

_NAMED = 5
"""How many of several files a remark names."""


@dataclass(frozen=True, kw_only=True)
class PlannedImage:
    """An image that is built, what is tested in it, and the nodes of a pipeline that run in it.

    *packages* are those that pip would install: name → version; none if it was not asked.
    """

    spec: ImageSpec
    tests: TestSpec | None
    nodes: tuple[JobNode, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a run will do, and nothing that it has done.

    Attributes:
        config: the configuration: gate, baseline, model, bounds, target.
        images: what is built: the job's image, and further ones of a pipeline; none where the job brings its own environment.
        job: the job without its image and attempt.
        names: what the target calls its workspace, registry and compute.
        notices: remarks for the user.
        origin: what the job's tags say of where it comes from.
        project: what the project is called, where the configuration names neither image nor job.
        trust: whether the commit is the protected branch's; decides tags, caches and which test records count.
    """

    config: Config
    images: tuple[PlannedImage, ...] = ()
    job: JobTemplate
    names: TargetNames
    commit: Commit | None
    notices: tuple[str, ...] = ()
    origin: Origin | None = None
    project: ProjectName | None = None
    trust: Trust = PROTECTED

    @property
    def image(self) -> ImageSpec | None:
        """The job's image; None where the job brings its own environment."""
        return self.images[0].spec if self.images else None

    @property
    def tests(self) -> TestSpec | None:
        """What runs inside the job's image; None where no tests are configured."""
        return self.images[0].tests if self.images else None

    @property
    def environment(self) -> Any:
        """The environment that the job itself asks for."""
        return self.job.document.get("environment")

    @property
    def name(self) -> str | None:
        """The job's name without its attempt.

        None if an image is built first, or not all data are identified.
        """
        if self.image is not None or not all(one.mark for one in self.job.data.values()):
            return None
        return job_name(self.job, {}, 1).rpartition("-")[0]

    @property
    def shown_data(self) -> dict[str, str]:
        """The identity of each input's data, for people."""
        local = {
            place: f"on this machine, {digest[:16]}"
            for place, digest in self.job.local_digests.items()
            if "inputs" in place.split(".")
        }
        found = {**local, **{place: str(one) for place, one in self.job.data.items()}}
        return {input_name(place): text for place, text in found.items()}

    @property
    def image_of_nodes(self) -> dict[str, str]:
        """The name of the image of each node that runs in one; ``image`` has none."""
        places = set(self.job.places) if self.images else set()
        found = {node.name: "" for node in self.job.nodes if node.place in places}
        return found | {node.name: one.spec.name for one in self.images[1:] for node in one.nodes}


def make_plan(
    config: Config, resolved: Resolved, names: TargetNames, *, branch: str | None = None, run_url: str | None = None
) -> Plan:
    """Make the plan from what the user and the world have said. Pure.

    Args:
        branch: what the run's branch is called, where there is no git.
        run_url: the workflow's run; None outside one.
    """
    project = resolved.project or folder_project(config.directory)
    base = resolved.images[""].base if "" in resolved.images else None
    images = tuple(_planned(config, resolved, project))
    document, notices = job_document(config, names)
    if (replicates := config.replicates) is not None:
        document = with_input(document, replicates.input, replicates.values[0])
        given = ", ".join(map(str, replicates.values))
        notices.append(f"The job runs {len(replicates.values)} times, with {replicates.input} = {given}.")
    notices += _secrets(config, resolved)
    notices += [f"The image {one.spec.name} has no tests." for one in images[1:] if one.tests is None]
    notices += _left_out_tags(config, resolved.trust)
    notices += _spot_at_most(config, document)
    code, code_digest = resolved.code, resolved.code_digest
    if code is not None and not code.entries:
        notices.append(f"There is nothing to send in {code.root}: the job gets no code.")
        del document["code"]
        code, code_digest = None, None
    origin = origin_of(config, resolved.commit, project, branch=branch)
    return Plan(
        origin=origin,
        trust=resolved.trust,
        config=config,
        project=project,
        images=images,
        job=JobTemplate(
            document=document,
            directory=config.job.directory,
            places=((),) if config.job.kind == "command" else tuple(node.place for node in config.nodes_in_image),
            folders=resolved.folders,
            nodes=config.job.nodes,
            properties=(
                {}
                if config.resume is None
                else {Tag.RESUME: config.resume.path, Tag.RESUME_METRIC: config.resume.metric}
            ),
            images=tuple(NodesImage(name=one.name, nodes=config.nodes_in(one)) for one in config.images),
            code=code,
            code_digest=code_digest,
            local_digests=resolved.local_digests,
            scope=names.scope,
            stem=stem_of(str(document.get("name") or document.get("experiment_name") or project.stem)),
            runconfig=_runconfig(config) if config.sdk == "v1" else None,
            tags={
                Tag.VERSION: __version__,
                **origin.tags(),
                **({Tag.RUN_URL: run_url} if run_url else {}),
                **({Tag.BASE: _base(base)} if base is not None else {}),
            },
        ),
        names=names,
        commit=resolved.commit,
        notices=(*config.notices, *notices),
    )


def _tests(tests: TestsConfig | None, files: FileSet | None, trust: Trust) -> TestSpec | None:
    if tests is None:
        return None
    if files is None:
        raise ValueError("tests need their files")
    return TestSpec(**{**vars(tests), "files": files, "group": trust.group or ""})


def _planned(config: Config, resolved: Resolved, project: ProjectName) -> Iterator[PlannedImage]:
    """Plan ``image`` and ``images``; the repository of a further one is that of ``image`` with its name."""
    given = {one.name: (one.tests, config.nodes_in(one)) for one in config.images}
    given[""] = config.tests, config.nodes_in_image
    for name, image in named_images(config, project.repository).items():
        if name not in resolved.images:  # only a run that is planned has them resolved
            continue
        found, (tests, nodes) = resolved.images[name], given[name]
        spec = plan_image(image, found.base, found.inputs, found.platform)
        checks, release = _checks(spec, config, nodes), _release(image, resolved, spec.address)
        spec = replace(spec, name=name, checks=checks, release=release).trusted(resolved.trust)
        yield PlannedImage(spec=spec, tests=_tests(tests, found.test_files, resolved.trust), nodes=nodes)


def named_images(config: Config, project: str) -> dict[str, ImageConfig]:
    """Return the images by their names, each with the name of its repository; *project* is the project's."""
    found = {} if config.image is None else {"": config.image.named(project)}
    for one in config.images:
        of_all = (config.image or one.image).named(project).repository
        found[one.name] = one.image.named(f"{of_all}-{one.name}")
    return found


def _base(base: BaseImage) -> str:
    """Return what the image is built from, so that it can be found again."""
    return f"{base.reference.familiar.partition('@')[0]}@{base.digest or base.image_id}"


def origin_of(config: Config, commit: Commit | None, project: ProjectName, *, branch: str | None = None) -> Origin:
    """Return the origin of the job, for its tags.

    Without git, the repository is the hash of the folder's path; or, as all repositories have the same path on a hosted runner,
    of the workflow's repository and the folder in it.

    Args:
        config: the configuration.
        commit: None outside a git repository.
        project: what the project is called.
        branch: what the run's branch is called, where there is no commit.
    """
    file = config.file or config.job.file
    if commit is None:
        place = str(project if project.source == "GITHUB_REPOSITORY" else config.directory.resolve())
        mark = hashlib.sha256(place.encode(errors="surrogatepass")).hexdigest()[:16]
        return Origin(repository=f"folder {mark}", configuration=file.name, branch=branch, commit="")
    return Origin(
        repository=commit.repository,
        configuration=f"{commit.folder}{file.name}",
        branch=commit.branch,
        commit=str(commit),
        dirty=commit.dirty,
    )


def _runconfig(config: Config) -> Mapping[str, Any]:
    """Return the run configuration that the SDK v1 submits.

    With `setup`, its command begins with that.
    """
    if config.job.runconfig is None:
        raise ValueError("what the SDK v1 submits has a run configuration")
    values = config.job.runconfig.values
    if not config.setup:
        return values
    command = str(add_setup({"command": config.job.runconfig.command}, config.setup, ())["command"])
    return {**values, "command": command, "script": None, "arguments": []}


def _release(config: ImageConfig, resolved: Resolved, address: str) -> Release:
    """Return the tags that the image gets after push and tests.

    A commit from which files differ gets no tag, and a proposal gets that of its pull request alone. The tag of the commit
    proves later whose image it is, whatever ``image.tags`` says.
    """
    commit, trust = resolved.commit, resolved.trust
    if not trust.protected:
        return Release(tags=(f"branch-{trust.pull}",) if trust.pull else (), lock=config.lock)
    sha = commit.sha if commit is not None and not commit.dirty else None
    branch = commit.branch if commit is not None else None
    templates = ("git-{commit}", *config.tags)
    return Release(tags=release_tags(templates, commit=sha, branch=branch, address=address), lock=config.lock)


def _left_out_tags(config: Config, trust: Trust) -> list[str]:
    """Return a remark on the tags of ``image.tags`` that a proposal does not get."""
    images = config.built_images
    wanted = dict.fromkeys(tag for image in images for tag in image.tags if tag not in DEFAULT_TAGS)
    if trust.protected or not wanted:
        return []
    instead = f"its tag is branch-{trust.pull}" if trust.pull else "it gets no tag"
    return [
        f"The image does not get {', '.join(f'`{tag}`' for tag in wanted)} of `image.tags`: this run is {trust}, and {instead}."
    ]


def _checks(image: ImageSpec, config: Config, nodes: Sequence[JobNode]) -> CheckPolicy:
    document = config.job.document
    parts = [mapping_at(document, node.place) for node in nodes] or [dict(document)]
    several = any(placement_of(part).nodes > 1 for part in parts)
    launchers = {str((part.get("distribution") or {}).get("type")).lower() for part in parts}
    return replace(image.checks, several_nodes=several, mpi="mpi" in launchers)


def _spot_at_most(config: Config, document: Mapping[str, Any]) -> list[str]:
    """Return which Spot nodes count at the price of dedicated ones, as far as the files say what runs where."""
    cluster = config.target.cluster
    kinds = [NodeKind(size=cluster.size, spot=cluster.tier == "spot")] if cluster is not None else []
    kinds += [NodeKind(size=one.size, spot=one.spot) for one in placements_of(document) if one.size]
    remarks = dict.fromkeys(spot_remark(config.cost, kind) for kind in kinds)
    return [text for text in remarks if text]


def _secrets(config: Config, resolved: Resolved) -> list[str]:
    """Return a remark on the files that are sent nowhere because they are secrets."""
    found = {
        os.path.relpath(file, config.directory)
        for file in secret_files(config)
        if file.is_relative_to(config.directory)
    }
    sent = [resolved.code, *resolved.folders.values()]
    for one in resolved.images.values():
        sent += [one.test_files, *one.inputs.trees.values()]
    found.update(path for files in sent if files is not None for path in files.secrets)
    return [f"Left out as secrets: {_named(sorted(found))}."] if found else []


def _named(found: Sequence[object]) -> str:
    return ", ".join(map(str, found[:_NAMED])) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
