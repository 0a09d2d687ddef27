"""AzureML's requirements of an image. Pure rules: facts → findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from aml_train.core.checks import Finding, error, info, warning
from aml_train.core.text import size
from aml_train.image.readiness.facts import Facts, Rule, python_version
from aml_train.image.spec import CheckPolicy

_OLDEST_PYTHON: Final = (3, 8)
_LARGE: Final = 30_000_000_000
_SHOWN: Final = 10
# The words of pip's command ``check`` (pip/_internal/commands/check.py, since 9.0).
_MISSING = re.compile(r"(?P<name>\S+) (?P<version>\S+) requires (?P<need>.+), which is not installed\.")
_UNFIT = re.compile(r"(?P<name>\S+) (?P<version>\S+) has requirement (?P<need>.+), but you have (?P<have>.+?)\.?")


def _shell(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    if not facts.get("shell", True):
        yield error(
            "shell",
            "the image has no /bin/sh",
            why="AzureML runs a job's command by a shell",
            remedy="build from a base with a shell, not from a distroless one",
        )
    elif facts["bash"] is None:
        yield error(
            "shell",
            "the image has no bash",
            why="AzureML runs a job's command by bash",
            remedy="add bash to image.apt",
        )


def _python(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    version = python_version(facts)
    if version is None:
        old = facts.get("old_python")
        yield error(
            "python",
            f"the image's Python is {old}" if old else "the image has no Python on PATH",
            why="the AzureML packages need Python 3, and this check needs 3.6",
            remedy="build from an image with Python, or add python3 and python3-pip to image.apt",
        )
        return
    text = f"Python {facts['python']['version']} at {facts['python']['path']}, {facts['system']['name'] or 'unknown system'}"
    if version < _OLDEST_PYTHON:
        yield warning(
            "python",
            text,
            why="the AzureML packages of today need Python 3.8 or newer",
            remedy="use a newer base, or pin versions that still support it",
        )
    else:
        yield info("python", text)
    if facts["commands"].get("python") is None:
        yield warning(
            "python-command",
            "the image has python3, but no command python",
            why="a job whose command starts with `python` ends with exit code 127",
            remedy="write python3 in the job's command, or add python-is-python3 to image.apt",
        )


def _platform(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    if facts["system"]["libc"] is None:
        yield warning(
            "platform",
            "the image's C library is not glibc",
            why="some AzureML packages (azureml-dataprep-rslex) and NVIDIA's libraries exist for glibc only",
            remedy="build from Debian, Ubuntu or another image with glibc rather than Alpine",
        )
    if facts["python"]["bits"] != 64:
        yield error(
            "platform",
            "the image's Python is a 32-bit program",
            why="the AzureML packages exist for 64 bits only",
            remedy="use a 64-bit base",
        )


def _packages(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    installed = facts["python_packages"]
    missing = [name for name in policy.packages if name not in installed]
    if missing:
        yield error(
            "azureml-packages",
            f"the image lacks {', '.join(missing)}",
            why="the configuration asks for it, so a later step removed it or another Python has the package",
            remedy=f"see whether image.pip or the base removes it, and that `{facts['python']['path']} -m pip list` shows it",
        )
    found = [
        f"{name} {installed[name]}"
        for name in ("azureml-defaults", "azureml-core", "azureml-mlflow", "mlflow", "mlflow-skinny")
        if name in installed
    ]
    if not missing and not any(name in installed for name in ("azureml-mlflow", "azureml-defaults", "azureml-core")):
        yield warning(
            "azureml-packages",
            "the image has neither azureml-mlflow nor azureml-defaults",
            why="a job cannot log metrics to AzureML with MLflow, so a gate would find none",
            remedy="write azureml-mlflow: true (or a version) under image",
        )
    elif found:
        yield info("azureml-packages", ", ".join(found))


def _imports(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    broken = {name: why for name, why in facts["imports"].items() if why is not None}
    for name, why in broken.items():
        yield error(
            "azureml-import",
            f"`import {name}` fails: {why}",
            why="what a job logs or reads through it would fail in the same way",
            remedy="look for a missing or unfit package, such as those under azureml-conflicts",
        )


def _conflicts(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    """Conflicts of the AzureML packages are errors; many bases come with others."""
    if facts["pip_check"] is None:
        yield info("pip-conflicts", "the image's Python has no pip to check its packages with")
        return
    ours: list[str] = []
    others: list[str] = []
    for line in facts["pip_check"]:
        match = _MISSING.fullmatch(line) or _UNFIT.fullmatch(line)
        name = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
        (ours if name in facts["azureml"] else others).append(line.rstrip("."))
    if ours:
        yield error(
            "azureml-conflicts",
            _listed(ours),
            why="the AzureML packages were not made to work with this",
            remedy="pin versions that fit together under image.pip; `pip install` of one requirements file resolves them at once",
        )
    if others:
        yield warning(
            "pip-conflicts",
            _listed(others),
            why="a package runs with versions that it was not made for",
            remedy="pin fitting versions under image.pip, unless the base comes like this and you know it",
        )


def _listed(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _certificates(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    for entry in facts["missing_files"]:
        yield error(
            "certificates",
            f"the image sets {entry}, which is not there",
            why="https fails with every service, AzureML's included",
            remedy="add the file, or do not set the variable",
        )
    certificates = facts["certificates"]
    if not certificates["count"]:
        reason = f" ({certificates['error']})" if certificates.get("error") else ""
        yield error(
            "certificates",
            f"Python finds no certificate authorities{reason}",
            why="https fails with whatever does not bring its own, AzureML's services included",
            remedy="add ca-certificates to image.apt",
        )
    elif certificates["bundle"] is None:
        yield warning(
            "certificates",
            "there is no bundle of certificates under /etc/ssl or /etc/pki",
            why="programs other than Python (curl, git, AzureML's data runtime) look there",
            remedy="add ca-certificates to image.apt",
        )


def _fuse(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    library = facts["libraries"]["libfuse.so.2"]
    if library["status"] == "broken":
        level, what = "error", f"libfuse.so.2 does not load: {library['error']}"
    elif library["status"] == "absent" and "azureml-dataprep" in facts["python_packages"]:
        level, what = "warning", "libfuse.so.2 is not there"
    else:
        return
    yield Finding(
        check="fuse",
        level="error" if level == "error" else "warning",
        what=what,
        why="azureml-dataprep mounts datasets of jobs of the first SDK by it; inputs of CLI v2 jobs are mounted from outside",
        remedy="add libfuse2 (libfuse2t64 from Debian 13 and Ubuntu 24.04 on) to image.apt",
    )


def _user(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    user = facts["user"]
    if not user["tmp_writable"]:
        yield error(
            "user",
            f"the image's user (uid {user['uid']}) may not write to /tmp",
            why="Python, torch and AzureML keep files there",
            remedy="give /tmp the mode 1777",
        )
    if user["uid"] == 0:
        return
    faults = []
    if user["name"] is None:
        faults.append("has no entry in /etc/passwd")
    if not user["home_writable"]:
        faults.append(f"may not write to its home {user['home']}")
    if faults:
        yield warning(
            "user",
            f"the image's user (uid {user['uid']}) {' and '.join(faults)}",
            why="getpass, torch's compiler, matplotlib and caches of models need both",
            remedy="create the user with useradd --create-home, or set HOME to a folder that it owns",
        )
    else:
        yield info(
            "user",
            f"the image runs as {user['name']} (uid {user['uid']}), who must be able to write to the job's outputs",
        )


def _entrypoint(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    entrypoint = facts["image"]["entrypoint"]
    if entrypoint:
        yield info(
            "entrypoint",
            f"the entrypoint {' '.join(entrypoint)} is left out in tests and checks; in a job it must run what it is given",
        )


def _size(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    count = facts["image"]["size"]
    if count > _LARGE:
        yield warning(
            "size",
            f"the image is {size(count)} large, unpacked",
            why="each node of the compute pulls and unpacks all of it before a job starts",
            remedy="use a smaller base, and leave out what training does not need",
        )
    else:
        yield info("size", f"{size(count)} unpacked")


ALWAYS_RULES: Final[tuple[Rule, ...]] = (_shell, _python, _entrypoint, _size)
"""Rules that need no Python in the image."""
AZUREML_RULES: Final[tuple[Rule, ...]] = (_platform, _packages, _imports, _conflicts, _certificates, _fuse, _user)
