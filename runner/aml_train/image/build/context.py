"""Folders that a build reads: the context, and Docker's configuration with credentials that live as long as the build."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path

from aml_train.core.docker import docker_configuration_file, read_docker_configuration
from aml_train.core.files import FileSet
from aml_train.image.registry.auth import RegistryAuth


def write_context(folder: Path, files: Mapping[str, bytes], trees: Mapping[str, FileSet]) -> None:
    """Write the build context into *folder*, which is made: the files with mode 0644, the trees with their own modes."""
    for name, tree in trees.items():
        tree.copy_to(folder / name)
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o644)


def docker_config(folder: Path, environ: Mapping[str, str], logins: Mapping[str, RegistryAuth]) -> Path:
    """Write a configuration folder for the ``docker`` command: the user's own, and *logins* by registry; return it.

    The user's plugins and credential helpers go on to count, but for these, whose credentials are in the file itself. Only
    the owner may read it, and it is gone with the build's folder.
    """
    source = docker_configuration_file(environ).parent
    config = read_docker_configuration(environ)
    entries = {registry: _entry(auth) for registry, auth in logins.items()}
    config["auths"] = {**(config.get("auths") or {}), **entries}
    config["credHelpers"] = {**(config.get("credHelpers") or {}), **dict.fromkeys(logins, "")}
    config.pop("currentContext", None)
    folder.mkdir(mode=0o700)
    file = os.open(folder / "config.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        json.dump(config, stream)
    if (source / "cli-plugins").is_dir():
        (folder / "cli-plugins").symlink_to((source / "cli-plugins").resolve())
    return folder


def _entry(auth: RegistryAuth) -> dict[str, str]:
    """Return credentials as Docker's configuration keeps them."""
    login = base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()
    return {"auth": login, **({"identitytoken": auth.identity_token} if auth.identity_token else {})}
