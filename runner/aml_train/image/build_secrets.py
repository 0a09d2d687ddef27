"""The files and variables that a build reads as secrets, and how steps get them.

A secret reaches a build step as a file that BuildKit mounts (``RUN --mount=type=secret``): it is in no layer, no history and no
cache key. The arguments of the ``docker`` command name variables, never a value.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aml_train.config.sections.image import SecretConfig
from aml_train.core.errors import Fault, ImageError, InvalidError

SECRET_PATH_VARIABLE: Final = "AML_TRAIN_SECRET_PATH"  # noqa: S105 - a name
"""Files and folders outside the workspace that may hold secrets, joined as in ``PATH``; the action sets it."""

WORKSPACE_VARIABLE: Final = "AML_TRAIN_WORKSPACE"
"""The workspace's folder; the action sets it. Without it, it is the git repository around the project."""

_KERNEL: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
_RUNNER: Final = Path("/github")
"""In a container action: its home, the event, the file commands and the runner's temporary folder (actions/runner,
``ContainerActionHandler.cs``; the last since https://github.com/actions/runner/pull/4011). The workspace is there, too."""

_LARGEST: Final = 128 * 1024 - 1024
"""Bytes. A secret reaches the ``docker`` command as a variable, of which Linux takes 128 KiB (execve(2), MAX_ARG_STRLEN)."""

_REMEDY: Final = (
    "move it into the workspace, or let the workflow allow it: the action's input `secret-path`, `--secret-path`, or "
    f"{SECRET_PATH_VARIABLE}"
)


@dataclass(frozen=True, kw_only=True)
class SecretAccess:
    """The files of the runner that a build may read as a secret.

    Attributes:
        workspace: the checkout; files in it are allowed. None for no such folder.
        allowed: more files and folders, as the workflow names them; absolute.
        proposed: the commit is only proposed, so only secrets that ``--set`` names are read.
    """

    workspace: Path | None = None
    allowed: tuple[Path, ...] = ()
    proposed: bool = False

    def roots(self) -> Iterator[Path]:
        """Yield the real paths of what is allowed.

        A path inside the workspace is left out: the repository may have made it a link to anywhere, and the workspace itself
        is allowed anyway.
        """
        if self.workspace is not None:
            yield Path(os.path.realpath(self.workspace))
        for path in self.allowed:
            if self.workspace is None or not path.is_relative_to(self.workspace):
                yield Path(os.path.realpath(path))


def secret_access(environment: Mapping[str, str], project: Path) -> SecretAccess:
    """Return the access that *environment* allows for the absolute *project* folder."""
    given = environment.get(WORKSPACE_VARIABLE)
    allowed = environment.get(SECRET_PATH_VARIABLE, "").split(os.pathsep)
    return SecretAccess(
        workspace=_absolute(given) if given else _repository(project),
        allowed=tuple(_absolute(path) for path in allowed if path),
    )


def read_secret_file(path: Path, access: SecretAccess, *, name: str, where: str) -> str:
    """Return the text of the file *path*, which holds the secret *name*.

    The path is resolved, judged, and then opened part by part without following a link: what is read is what was judged.

    Args:
        path: absolute.
        access: what is allowed.
        name, where: the secret and its place in the user's file, for errors.

    Raises:
        ImageError: if it cannot be read.
        InvalidError: if it may not be read.
    """
    try:
        real = Path(os.path.realpath(path, strict=True))
        _judge(path, real, access, name, where)
        content = _read(real)
    except OSError as error:
        raise _unreadable(path, name, where, error.strerror or str(error)) from error
    if content is None:
        what = f"the secret `{name}` leads to {real}, which is a part of /proc or /sys, a device, a pipe or a folder"
        raise InvalidError([Fault(where=where, what=what, remedy="name a regular file")])
    if len(content) > _LARGEST:
        raise _unreadable(path, name, where, f"it is larger than {_LARGEST // 1024} KiB")
    if b"\0" in content:
        raise _unreadable(path, name, where, "it holds a NUL byte")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(path, name, where, "it is not UTF-8") from error


def _judge(path: Path, real: Path, access: SecretAccess, name: str, where: str) -> None:
    """Raise InvalidError unless *path*, which leads to *real*, may be read."""
    what = f"the secret `{name}` is not read from {path}"
    what += f", which leads to {real}" if real != path else ""
    roots = list(access.roots())
    if refused := next((one for one in _KERNEL for seen in (path, real) if seen.is_relative_to(one)), None):
        why = f"{refused} shows the runner's processes and devices"
        raise InvalidError([Fault(where=where, what=what, why=why, remedy="name a variable: {env: NAME}")])
    if real.is_relative_to(_RUNNER):
        # Neither `/` nor `/github` as a whole allows what the runner keeps there.
        roots = [root for root in roots if root.is_relative_to(_RUNNER) and root != _RUNNER]
    inside = [root for root in roots if real.is_relative_to(root)]
    if not inside:
        why = "what a build may read of the runner, the workflow decides, not the repository"
        raise InvalidError([Fault(where=where, what=what, why=why, remedy=_REMEDY)])
    if all(".git" in real.relative_to(root).parts for root in inside):
        why = "`.git` may hold the token of the checkout"
        raise InvalidError([Fault(where=where, what=what, why=why, remedy="name a variable: {env: NAME}")])


def _read(real: Path) -> bytes | None:
    """Return what *real* holds, up to ``_LARGEST`` + 1 bytes; None if no regular file.

    Raises:
        OSError: if a part of the path is a link now, or it cannot be read.
    """
    folder = os.open(real.anchor, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in real.parts[1:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(real.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(file)
        # The same file systems may be mounted elsewhere, too.
        if not stat.S_ISREG(status.st_mode) or status.st_dev in _kernel_devices():
            return None
        with os.fdopen(file, "rb", closefd=False) as stream:
            return stream.read(_LARGEST + 1)
    finally:
        os.close(file)


def _kernel_devices() -> set[int]:
    return {os.stat(path).st_dev for path in ("/proc", "/sys") if os.path.ismount(path)}  # noqa: PTH116


def _unreadable(path: Path, name: str, where: str, reason: str) -> ImageError:
    return ImageError(f"{where}: the secret {name} cannot be read from {path}: {reason}")


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(text))  # noqa: PTH100 - Path.absolute() keeps `..`


def _repository(project: Path) -> Path:
    """Return the git repository around *project*, or *project* itself outside one."""
    return next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), project)


_VARIABLE: Final = "AML_TRAIN_BUILD_SECRET_"


@dataclass(frozen=True, kw_only=True)
class BuildSecrets:
    """The secrets of one build.

    Attributes:
        options: values of docker's ``--secret``; they name variables and hold no secret.
        variables: what the ``docker`` command finds in its environment beyond what is there: the contents of files.
        values: every secret, to mask it.
    """

    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: tuple[str, ...] = field(default=(), repr=False)


def build_secrets(
    secrets: Mapping[str, SecretConfig], environ: Mapping[str, str], access: SecretAccess
) -> BuildSecrets:
    """Read the secrets of a build.

    A file is read here, once, and reaches the ``docker`` command as a variable: that command would follow whatever the path
    has become by then.

    Raises:
        ImageError: if one is not there or is empty.
        InvalidError: if one may not be read.
    """
    options, variables, values = [], {}, []
    for number, (name, secret) in enumerate(sorted(secrets.items())):
        if access.proposed and not secret.by_option:
            raise _refusal(name, secret)
        variable = secret.env or f"{_VARIABLE}{number}"
        value = _value(name, secret, environ, access)
        if secret.env is None:
            variables[variable] = value
        options.append(f"id={name},env={variable}")
        values.append(value)
    return BuildSecrets(options=tuple(options), variables=variables, values=tuple(values))


def _refusal(name: str, secret: SecretConfig) -> InvalidError:
    what = f"the secret `{name}` is not read for a run of a commit that is only proposed"
    why = "its author could name any secret of the runner"
    key = f"image.secrets.{name}"
    example = f"{key}.env={secret.env}" if secret.env is not None else f"{key}.file=PATH"
    remedy = f"let the workflow name it: `set: {example}` (`--set` on the command line)"
    return InvalidError([Fault(where=secret.where, what=what, why=why, remedy=remedy)])


def _value(name: str, secret: SecretConfig, environ: Mapping[str, str], access: SecretAccess) -> str:
    if secret.env is not None:
        value = environ.get(secret.env, "")
        what, remedy = f"the environment variable {secret.env} is not set", f"Set it: {secret.env}=…"
    elif secret.file is not None:
        value = read_secret_file(secret.file, access, name=name, where=secret.where)
        what, remedy = f"the file {secret.file} is empty", "Put the secret into it."
    else:
        raise ValueError(f"the secret {name} is neither a variable nor a file")
    if not value.strip():
        raise ImageError(f"{secret.where}: the build needs the secret {name}, and {what}", hint=remedy)
    return value
