"""Give the project the name of another repository, so that anybody can publish it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.release.commands import ReleaseError, run
from scripts.release.sources import (
    MAJOR_LINE,
    SETTING,
    check_repository,
    check_version,
    moving_tag,
    own_name,
    read_files,
    rename,
)

PYPROJECT: Final = "pyproject.toml"
_VERSION: Final = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
_PACKAGE: Final = re.compile(r'^name = "(.*)"$', re.MULTILINE)
#: A command that installs the package by its name, or from a repository.
_INSTALL: Final = (
    r"""(\b(?:pip|tool|pipx) install (?:--upgrade )?)(["']?)({})(\[[\w,-]+\])?(?: @ git\+[^"'\s]+)?\2(?![\w=.-])"""
)
_REMOTE: Final = re.compile(r"github\.com[:/]([^/]+/[^/]+?)(?:\.git)?/?")

NEXT: Final = """\
What is left to do, in this order. Each part is useful without those after it.

1. Publish the action. It is built from its Dockerfile by each workflow that uses it, also from a private repository:
     git push origin HEAD {major}
   A workflow of another repository can then say `uses: {repository}@{major}`.
     Actions are off in a new fork: https://github.com/{repository}/actions
     A private repository must let others use it: https://github.com/{repository}/settings/actions

2. Publish the images in ghcr.io, so that no workflow builds them:
     git tag release/v{version} && git push origin release/v{version}
   Then make both packages public, once: https://github.com/{repository}/pkgs/container/{package}
     and https://github.com/{repository}/pkgs/container/{package}-emulator
   With the secret RELEASE_TOKEN (https://github.com/{repository}/settings/secrets/actions), {major} names the published image.

3. Publish the package on PyPI, if you want that: adopt again with --pypi-name, add a trusted publisher for release.yml
   at https://pypi.org/manage/account/publishing/, and set the variable PUBLISH_TO_PYPI to true:
     https://github.com/{repository}/settings/variables/actions

docs/releasing.md has the details."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """The new names.

    Attributes:
        repository: ``OWNER/NAME`` on GitHub.
        version: such as ``1.0.0``; ``0.x`` moves the tag ``v0``.
        package: the name on PyPI; None if the package is installed from the repository.
    """

    repository: str
    version: str
    package: str | None = None

    @property
    def next_steps(self) -> str:
        """What only the repository's owner can do."""
        name = self.repository.lower().partition("/")[2]
        return NEXT.format(
            repository=self.repository, version=self.version, major=moving_tag(self.version), package=name
        )


def adopted_files(contents: Mapping[str, bytes], adoption: Adoption) -> dict[str, bytes]:
    """Return the files that an adoption changes.

    Args:
        contents: path → contents of every file of the commit.

    Raises:
        ReleaseError: the name or the version cannot be released.
    """
    check_repository(adoption.repository)
    before = MAJOR_LINE.findall(contents[SETTING].decode())[0]
    project = contents[PYPROJECT].decode()
    install = re.compile(_INSTALL.format(re.escape(_PACKAGE.findall(project)[0])))
    major = moving_tag(adoption.version)
    changed = rename(contents, adoption.repository)
    files = {**contents, **changed}
    setting = _VERSION.sub(f'__version__ = "{adoption.version}"', files[SETTING].decode())
    files[SETTING] = MAJOR_LINE.sub(f'MAJOR: Final = "{major}"', setting).encode()
    check_version(adoption.version, files[SETTING].decode(), wanted=None)
    if adoption.package:
        files[PYPROJECT] = _PACKAGE.sub(f'name = "{adoption.package}"', files[PYPROJECT].decode(), count=1).encode()
    uses = re.compile(rf"({re.escape(adoption.repository)}(?:/[\w./-]+)?)@{before}\b".encode())
    for path, content in files.items():
        new = uses.sub(rf"\1@{major}".encode(), content)
        if path.endswith((".md", ".yml")):
            new = install.sub(lambda match: _install(match, adoption), new.decode()).encode()
        files[path] = new
    return {path: content for path, content in files.items() if content != contents[path]}


def _install(match: re.Match[str], adoption: Adoption) -> str:
    """Return the words that install the adopted package."""
    command, quote, name, extra = match[1], match[2], match[3], match[4] or ""
    if adoption.package:
        quote = quote if extra else ""
        return f"{command}{quote}{adoption.package}{extra}{quote}"
    source = f"git+https://github.com/{adoption.repository}@{moving_tag(adoption.version)}"
    quote = quote or '"'
    return f"{command}{quote}{name}{extra} @ {source}{quote}"


def adopt(root: Path, adoption: Adoption, say: Callable[[str], object]) -> None:
    """Rename the project in the working tree of *root*, commit, and move the major version's tag there.

    Raises:
        ReleaseError: files are changed and not committed, or the name or version cannot be released.
    """
    if run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=root).strip():
        raise ReleaseError("Files are changed and not committed. Commit or stash them: git status")
    contents = read_files(root, "HEAD")
    changed = adopted_files(contents, adoption)
    for remark in _remarks(root, adoption.repository):
        say(f"note: {remark}")
    for path, content in changed.items():
        (root / path).write_bytes(content)
    major = moving_tag(adoption.version)
    if changed:
        before = own_name(contents[SETTING].decode())
        run(["git", "commit", "--all", "--message", f"Adopt as {adoption.repository} {adoption.version}"], cwd=root)
        say(f"{before} is {adoption.repository} in {len(changed)} files; {adoption.version} is committed.")
    run(["git", "tag", "--force", major], cwd=root)
    say(f"The tag {major} is on this commit.\n\n{adoption.next_steps}")


def _remarks(root: Path, repository: str) -> list[str]:
    """Return what stands in the way of publishing, as far as it can be known from here."""
    remotes = run(["git", "remote", "--verbose"], cwd=root).decode()
    named = {name.lower() for name in _REMOTE.findall(remotes)}
    found = []
    if repository.lower() not in named:
        found.append(f"no git remote is {repository}: git remote add origin https://github.com/{repository}.git")
    if shutil.which("gh") is None:
        return [*found, "without GitHub's command line (gh), the repository's settings are not looked at"]
    actions = _github(root, f"repos/{repository}/actions/permissions")
    if actions is None:
        found.append(f"gh cannot read {repository}: create it, or sign in with gh auth login")
    elif not actions.get("enabled"):
        found.append(f"Actions are off: https://github.com/{repository}/settings/actions")
    owner, _, name = repository.lower().partition("/")
    for package in (name, f"{name}-emulator"):
        answer = _github(root, f"users/{owner}/packages/container/{package}")
        if answer is not None and answer.get("visibility") != "public":
            found.append(f"the package {package} is {answer.get('visibility')}: workflows of others cannot pull it")
    return found


def _github(root: Path, path: str) -> Any:
    """Return what GitHub answers, or None if it does not."""
    done = subprocess.run(["gh", "api", path], cwd=root, capture_output=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None
