"""The project's name: the repository's owner and name, and the folder in it. Pure.

The same commit has the same name on every machine, in the command line and in the action: the address of the git remote says it. A
hosted runner mounts each repository as ``workspace``, so that a folder's name says nothing there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal
from urllib.parse import unquote

Source = Literal["the git remote", "GITHUB_REPOSITORY", "the project folder"]

#: git's own forms: https://git-scm.com/docs/git-clone#_git_urls. The part before the last ``@`` signs in, and is never kept.
_URL: Final = re.compile(
    r"(?:https?|ssh|git)://(?:[^/]*@)?(?P<host>[\w.-]+|\[[0-9a-f:.]+\])(?::\d*)?/(?P<path>[^?#@]+?)/?(?:[?#].*)?"
    r"|(?:[^@/:]+@)?(?P<alias>[\w.-]{2,}):(?!//)(?P<short>[^@]+)",
    re.IGNORECASE,
)
#: Hosts that serve ssh for another one: https://docs.github.com/authentication/troubleshooting-ssh/using-ssh-over-the-https-port,
#: https://learn.microsoft.com/azure/devops/repos/git/use-ssh-keys-to-authenticate, and GitLab's and Bitbucket's likewise.
_HOSTS: Final[Mapping[str, str]] = {
    "www.github.com": "github.com",
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com",
    "vs-ssh.visualstudio.com": "dev.azure.com",
}
_AZURE: Final = "dev.azure.com"
#: A part of a repository's name in a registry: https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pulling-manifests
_PART: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
#: Registries bound the name with the host's by 255 characters (the same page); tags and ``-candidate`` come on top.
_LONGEST: Final = 160
#: Of the readable beginning of a job's name.
_LONGEST_STEM: Final = 40


@dataclass(frozen=True, kw_only=True)
class ProjectName:
    """The name of a project.

    Attributes:
        parts: such as ``("octo", "digits", "models", "small")``: owner, name, and the folder's parts.
        source: where the name is from.
    """

    parts: tuple[str, ...]
    source: Source

    def __str__(self) -> str:
        return "/".join(self.parts)

    @property
    def repository(self) -> str:
        """The image's repository; projects of different names never share one."""
        if self.source == "the project folder":
            return folder_name(self.parts[-1])
        name = "/".join(map(_part, self.parts))
        return name if len(name) <= _LONGEST else f"{name[:_LONGEST].rstrip('/._-')}-{_mark(str(self).lower())}"

    @property
    def stem(self) -> str:
        """The beginning of the job's name, if neither job nor experiment has one."""
        name = "-".join(self.parts)
        if len(name) <= _LONGEST_STEM or self.source == "the project folder":
            return name
        mark = _mark(str(self).lower())
        return f"{name[: _LONGEST_STEM - len(mark) - 1].rstrip('-_.')}-{mark}"


def folder_name(folder: str) -> str:
    """Make a repository's name of a folder's: lower case, words joined by ``-``."""
    return re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-") or "aml-train"


def name_project(directory: Path, *, remote: str, folder: str | None, environ: Mapping[str, str]) -> ProjectName:
    """Return what the project in *directory* is called.

    Args:
        directory: absolute.
        remote: the address of the repository's remote; empty without one.
        folder: the project's folder in the repository; None outside a repository.
        environ: on GitHub, it says which repository the workspace is a checkout of.
    """
    path = repository_of(remote).partition("/")[2]
    if path and folder is not None:
        return ProjectName(parts=(*_parts(unquote(path)), *_parts(folder)), source="the git remote")
    workspace, repository = environ.get("GITHUB_WORKSPACE", ""), environ.get("GITHUB_REPOSITORY", "")
    if workspace and repository and directory.is_relative_to(workspace):
        inside = directory.relative_to(workspace).as_posix() if folder is None else folder
        return ProjectName(parts=(*_parts(repository), *_parts(inside)), source="GITHUB_REPOSITORY")
    return folder_project(directory)


def folder_project(directory: Path) -> ProjectName:
    """Return the name of a project of which nothing is known but its folder."""
    return ProjectName(parts=(directory.name,), source="the project folder")


def repository_of(url: str) -> str:
    """Return host and path of a remote's *url*, without user, password and ``.git``.

    A path on this machine is no name of a repository. Neither is a part that could hold a misplaced password.
    """
    match = _URL.fullmatch(url.strip())
    if match is None:
        return ""
    host = (match["host"] or match["alias"]).lower()
    path = (match["path"] or match["short"]).strip("/").removesuffix(".git")
    return _azure(host, path) or (f"{_HOSTS.get(host, host)}/{path}" if path else "")


def _azure(host: str, path: str) -> str:
    """Return Azure DevOps' one form for a repository of several; empty for others."""
    organization = host.removesuffix(".visualstudio.com") if host.endswith(".visualstudio.com") else ""
    if host in ("ssh.dev.azure.com", "vs-ssh.visualstudio.com"):
        found = re.fullmatch(r"v3/([^/]+)/([^/]+)/([^/]+)", path)
    elif organization:
        found = re.fullmatch(r"()(?:DefaultCollection/)?(?:([^/]+)/)?_git/([^/]+)", path)
    elif host == _AZURE:
        found = re.fullmatch(r"([^/]+)/(?:([^/]+)/)?_git/([^/]+)", path)
    else:
        return ""
    if found is None:
        return ""
    # The repository that is called like its project may be named without it.
    return f"{_AZURE}/{found[1] or organization}/{found[2] or found[3]}/_git/{found[3]}"


def _parts(path: str) -> list[str]:
    """Return the parts of a path, without what only a server needs."""
    parts = PurePosixPath(path).parts
    return [part for part in parts if part not in ("", "/", ".", "..", "_git")]


def _part(text: str) -> str:
    """Return *text* as a part of a repository's name.

    It gets a hash if a registry does not take it as it is.
    """
    lower = text.lower()
    if _PART.fullmatch(lower):
        return lower
    plain = re.sub(r"[^a-z0-9]+", lambda match: match[0] if match[0] in (".", "_", "__") else "-", lower)
    return f"{plain.strip('-._') or 'x'}-{_mark(lower)}"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
