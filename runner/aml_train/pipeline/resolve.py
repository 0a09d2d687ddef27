"""Resolve what a plan needs: the commit, digests of base image and files.

Nothing is changed here: resolving is safe to repeat, and ``plan`` does nothing else.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from aml_train.azure.names import azure_names
from aml_train.config.job.model import Job, Place, inner_mappings, mapping_at
from aml_train.config.job.paths import is_local
from aml_train.config.model import Config
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.tests import TestsConfig
from aml_train.core import git
from aml_train.core.errors import Combined
from aml_train.core.file_selection import CACHES, GIT_IGNORE_FILES, IGNORE_FILES, SECRETS, FileId
from aml_train.core.files import FileSet
from aml_train.core.git import DIRTY
from aml_train.core.trust import PROTECTED, Trust, proposal
from aml_train.image.collect import collect_inputs
from aml_train.image.dockerfile.ofed import needs_base
from aml_train.image.inputs import BaseImage, ImageInputs
from aml_train.image.project_files import conda_file, read_file
from aml_train.jobs.code import check_code
from aml_train.jobs.setup import check_links
from aml_train.jobs.spec import TargetNames
from aml_train.local.settings import EmulatorSettings, local_names
from aml_train.pipeline.project_name import ProjectName, name_project, repository_of
from aml_train.pipeline.run_files import DEVCONTAINER, not_code

if TYPE_CHECKING:
    from aml_train.image.base import BaseImages

BRANCH_VARIABLE: Final = "AML_TRAIN_BRANCH"
"""Names the branch where the checkout is detached, as it is in most pipelines."""

RUN_URL_VARIABLE: Final = "AML_TRAIN_RUN_URL"
"""Address of the workflow's run, for the lineage of jobs and models; the action sets it."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The commit that is checked out.

    Attributes:
        sha: its hash.
        branch: None if the checkout is detached and no branch is configured for it.
        dirty: whether files differ from it.
        repository: host and path of the remote ``origin``, such as ``github.com/owner/name``; without one,
            ``root commit`` and its hash.
        folder: the project's folder in the repository, with a slash at its end; empty where it is the repository's own.
    """

    sha: str
    branch: str | None
    dirty: bool
    repository: str = ""
    folder: str = ""

    def __str__(self) -> str:
        return f"{self.sha}{DIRTY}" if self.dirty else self.sha


@dataclass(frozen=True, kw_only=True)
class ResolvedImage:
    """An image's base and contents, its platform, and the files that its tests see."""

    base: BaseImage
    inputs: ImageInputs
    platform: str
    test_files: FileSet | None


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The values that a plan is made from.

    Attributes:
        commit: None outside a git repository.
        code: the files of the job's code snapshot, where it is a local folder.
        code_digest: digest of the job's code snapshot, where it is local.
        local_digests: other local paths that the job sends: place in the document → digest.
        folders: the code of a pipeline's nodes, or of a sweep's trial: place of the mapping with ``code`` → files.
        project: what the project is called; None leaves it to its folder.
        images: the images that are built, by their names; that of ``image`` is empty.
        trust: whether the commit is the protected branch's, or proposed.
    """

    commit: Commit | None
    code: FileSet | None
    code_digest: str | None
    local_digests: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[Place, FileSet] = field(default_factory=dict)
    project: ProjectName | None = None
    images: Mapping[str, ResolvedImage] = field(default_factory=dict)
    trust: Trust = PROTECTED


def read_trust(directory: Path, commit: Commit | None, *, named: str | None, proposed: bool) -> Trust:
    """Return the trust of a run outside GitHub's events: that of its branch.

    The protected branch is the remote's default one, as this checkout knows it (``git remote set-head``), else main or master.

    Args:
        directory: of the checkout.
        commit: what is checked out.
        named: the branch that the environment names for a detached checkout, such as ``main`` or ``pull/7``.
        proposed: whether the caller says that the commit is only proposed.
    """
    if commit is None:
        return proposal()
    if commit.branch is not None and not proposed:
        default = git.default_branch(directory)
        if commit.branch in ((default,) if default else ("main", "master")):
            return PROTECTED
    pull = re.fullmatch(r"pull/(\d+)", named or "") if commit.branch == named else None
    return proposal(pull=pull[1] if pull else None, branch=commit.branch, commit=commit.sha)


def read_commit(directory: Path, *, branch: str | None = None, checkout: git.Checkout | None = None) -> Commit | None:
    """Return the commit of *directory*'s checkout, or None if there is no commit.

    *branch* is what the commit is called where the checkout is detached, as it is in most pipelines. *checkout* has what is known of it.
    """
    checkout = checkout or git.Checkout(directory)
    status = checkout.status
    if status is None:
        return None
    headers = dict(
        line[2:].split(" ", 1) for line in status.splitlines() if line.startswith("# ") and " " in line[2:]
    )
    sha = headers.get("branch.oid", "")
    if len(sha) < 40:
        return None
    head = headers.get("branch.head")
    dirty = any(not line.startswith("# ") for line in status.splitlines())
    return Commit(
        sha=sha,
        branch=branch if head == "(detached)" else head,
        dirty=dirty,
        repository=repository_of(checkout.remote) or (f"root commit {checkout.root}" if checkout.root else ""),
        folder=checkout.folder or "",
    )


def read_project(
    directory: Path, environment: Mapping[str, str], *, checkout: git.Checkout | None = None
) -> ProjectName:
    """Return the name of the project in *directory*; *environment* is the process's.

    *checkout* has what is known of the checkout around it.
    """
    checkout = checkout or git.Checkout(directory)
    workspace = environment.get("GITHUB_WORKSPACE", "")
    return name_project(
        directory.resolve(),
        remote=checkout.remote,
        folder=checkout.folder,
        environ={**environment, "GITHUB_WORKSPACE": str(Path(workspace).resolve()) if workspace else ""},
    )


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a configuration is resolved in.

    Attributes:
        platform: the engine's own, such as ``linux/amd64``; the configuration's wins.
        lookup: looks up base images; not needed without ``image:``, or where the files are only checked.
        commit: finds the commit around a folder.
        own: files that this process writes to: they are no part of code, tests and image.
        now: the time, for ``image.refresh``.
        check: whether the files are only checked: no service is asked, and no digest computed of what may be large.
        given: whether environments that no image of the configuration replaces are used as they are.
    """

    platform: str
    lookup: BaseImages | None = None
    commit: Callable[[Path], Commit | None] = read_commit
    own: Collection[FileId] = ()
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    check: bool = False
    given: bool = True


def resolve(config: Config, here: Surroundings) -> Resolved:
    """Ask what *config* needs to know.

    Raises:
        ImageError: if the base image is nowhere to be found.
        InvalidError: with every fault: a local file cannot be read or used, or the code is more than may be sent.
    """
    own, path, code, code_digest = here.own, config.job.code, None, None
    images: dict[str, ResolvedImage] = {}
    configured = {"": (config.image, config.tests)} if config.image is not None else {}
    configured |= {one.name: (one.image, one.tests) for one in config.images}
    together = Combined()
    for name, (image, tests) in configured.items():
        with together.part():
            lookup = here.lookup.for_image(image) if here.lookup is not None else None
            images[name] = resolve_image(image, tests, config.directory, lookup, here)
    with together.part():
        if path is not None and path.is_dir():
            code = _code(path, config, own)
            code_digest = "" if here.check else code.digest()
        elif path is not None:
            code_digest = _digest_of(path, config.directory)
    with together.part():
        folders = _folders(config, own)
    with together.part():
        digests = local_digests(config.job, config.directory, check=here.check, given=here.given and not configured)
    together.raise_if_any()
    digests |= {".".join((*place, "code")): "" if here.check else one.digest() for place, one in folders.items()}
    return Resolved(
        commit=here.commit(config.directory),
        code=code,
        code_digest=code_digest,
        local_digests=digests,
        folders=folders,
        images=images,
    )


def resolve_image(
    image: ImageConfig, tests: TestsConfig | None, project: Path, lookup: BaseImages | None, here: Surroundings
) -> ResolvedImage:
    """Return the base and the contents of an image; without *lookup*, the base is as it is written.

    Raises:
        ImageError: if its base is nowhere to be found.
        InvalidError: with every fault of its files.
    """
    if here.check and image.ofed is not None and needs_base(image.ofed):
        image = replace(image, ofed=None)
    platform, files, together = image.platform or here.platform, None, Combined()
    with together.part():
        base, inputs = collect_inputs(
            image, project=project, platform=platform, bases=lookup, now=here.now, own=here.own
        )
    with together.part():
        files = _test_files(project, tests, here.own) if tests else None
    together.raise_if_any()
    if here.check:  # a plan would hash the files
        inputs = replace(inputs, trees={name: replace(tree, entries=()) for name, tree in inputs.trees.items()})
    return ResolvedImage(base=base, inputs=inputs, platform=platform, test_files=files)


def _test_files(folder: Path, tests: TestsConfig, own: Collection[FileId]) -> FileSet:
    """Select the files that the tests see, by git's ignore rules only.

    An .amlignore selects files for the job, and mostly leaves tests out. devcontainer.json names the image in which the tests passed:
    as one of their files it would make them other tests.
    """
    leave_out = (*SECRETS, *CACHES, f"/{DEVCONTAINER}")
    return FileSet.collect(folder, tests.files, ignore_files=GIT_IGNORE_FILES, leave_out=leave_out, own=own)


def _code(folder: Path, config: Config, own: Collection[FileId]) -> FileSet:
    """Select the files of the code snapshot, and check that they may be sent."""
    code = FileSet.collect_code(
        folder,
        include=config.code.include,
        leave_out=not_code(config, folder),
        project=config.directory,
        own=own,
    )
    ignore_file = next((name for name in IGNORE_FILES if (folder / name).is_file()), None)
    check_links(config.data, code)
    check_code(code, config.code, ignore_file)
    return code


def _folders(config: Config, own: Collection[FileId]) -> dict[Place, FileSet]:
    """Select the files of each node's code; nodes with the same folder share them."""
    known: dict[Path, FileSet] = {}
    found: dict[Place, FileSet] = {}
    for node in config.job.nodes:
        path = node.code
        if path is None or node.own_upload or not path.is_dir():
            continue
        if path not in known:
            known[path] = _code(path, config, own)
        if known[path].entries:
            found[node.place] = known[path]
    return found


def _digest_of(path: Path, project: Path, *, check: bool = False) -> str:
    """Return the digest of a file, or of azure-ai-ml's upload of a folder; with *check*, only see whether it can be sent."""
    if path.is_dir():
        files = FileSet.collect_upload(path, project=project)
        return "" if check else files.digest()
    return "" if check else hashlib.sha256(read_file(path)).hexdigest()


def local_digests(job: Job, project: Path, *, check: bool = False, given: bool = False) -> dict[str, str]:
    """Return the digest of every local path besides the code.

    These are inputs, and the files that an environment names.

    Links of the repository of *project* that lead out of it are refused. So are conda files that name other files, if the environments
    are used as they are *given*: AzureML gets the conda file alone.
    """
    found: dict[str, str] = {}

    def add(place: str, value: object, start: Path) -> Path | None:
        if not is_local(value):
            return None
        path = (start / str(value).removeprefix("file:")).resolve()
        if path.exists():
            found[place] = _digest_of(path, project, check=check)
            return path
        return None

    def add_all(document: Mapping[str, Any], before: str) -> None:
        for name, value in (document.get("inputs") or {}).items():
            if isinstance(value, Mapping):
                add(f"{before}inputs.{name}", value.get("path"), job.directory)
        environment: Any = document.get("environment")
        start = job.directory
        if isinstance(environment, str) and environment.startswith("file:"):
            path = add(f"{before}environment", environment.removeprefix("file:"), job.directory)
            if path is not None:
                start, environment = path.parent, yaml.safe_load(read_file(path))
        if isinstance(environment, Mapping):
            conda = add(f"{before}environment.conda_file", environment.get("conda_file"), start)
            if conda is not None and given:
                conda_file(conda, project.resolve())
            build = environment.get("build")
            if isinstance(build, Mapping):
                add(f"{before}environment.build.path", build.get("path"), start)

    add_all(job.document, "")
    for place, inner in inner_mappings(job.document):
        add_all(inner, ".".join(place) + ".")
    for node in job.nodes:
        if node.code is not None and (node.own_upload or not node.code.is_dir()):
            component = mapping_at(job.document, node.place)
            for index, path in enumerate((component["code"], *component.get("additional_includes", ()))):
                add(".".join((*node.place, "code", str(index))), path, job.directory)
    return found


def target_names(config: Config, environ: Mapping[str, str]) -> TargetNames:
    """Return what the target of *config* calls its workspace, registry and compute.

    Raises:
        InvalidError: the workspace is not known, or the job has no compute that could run it there.
    """
    if config.target.kind == "azure":
        return azure_names(config, environ)
    return local_names(EmulatorSettings.from_environment(environ), config.target.name)
