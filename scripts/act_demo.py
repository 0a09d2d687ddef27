"""Run a project's workflow under act: ``python -m scripts.act_demo``.

``uses: org/aml-train@v1`` is mapped to this checkout.

act needs a repository, and a runner image that is on the machine; nothing is pulled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ACTION = "org/aml-train@v1"
#: What the action's image is built from, and the reusable workflows.
ACTION_PARTS = (".github", "action.yml", "Dockerfile", ".dockerignore", "requirements", "runner", "action")
# Holds bash, which is all that the example's steps need; actions/checkout is act's own affair.
RUNNER_IMAGE = "python:3.11-slim-bookworm"
#: What GitHub reports with each event, and act leaves out: which branch's commits are no mere proposals.
_PAYLOAD = {"ref": "refs/heads/main", "repository": {"default_branch": "main"}}


def act_command(
    repository: Path,
    environment: Mapping[str, str],
    *,
    act: str,
    action: Path = ROOT,
    variables: Mapping[str, str] | None = None,
    event: str = "push",
    payload: Path | None = None,
    secrets: Sequence[str] = (),
) -> list[str]:
    """Return act's command line for the workflows of *repository* on *event*.

    Args:
        repository: the repository's folder.
        action: what `uses: org/aml-train@v1` is mapped to.
        environment: variables of the jobs' processes. Not for secrets: they are arguments.
        act: the command.
        variables: the repository's variables, ``vars`` in workflows.
        event: what has happened, such as ``pull_request``.
        payload: a JSON file with the event's payload.
        secrets: names of secrets, whose values act takes from its own environment.
    """
    command = [act, event, "--directory", str(repository), "--platform", f"ubuntu-latest={RUNNER_IMAGE}"]
    command += ["--pull=false", "--action-offline-mode", "--rm", "--local-repository", f"{ACTION}={action}"]
    if payload is not None:
        command += ["--eventpath", str(payload)]
    for name, value in sorted(environment.items()):
        command += ["--env", f"{name}={value}"]
    for name, value in sorted((variables or {}).items()):
        command += ["--var", f"{name}={value}"]
    for name in secrets:
        command += ["--secret", name]
    return command


def export_action(folder: Path, root: Path = ROOT) -> Path:
    """Copy the action's sources in *root* into *folder*.

    act would read all of the checkout, including .venv and .git, into its memory.
    """
    exported = folder / "action"
    exported.mkdir()
    for name in ACTION_PARTS:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, exported / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, exported / name)
    return exported


def make_repository(project: Path, folder: Path, mark: str) -> Path:
    """Copy *project* into *folder*, as a repository with one commit, or as the repository that it is.

    *mark* is added to the names of the workflows of what was none.
    """
    repository = folder / project.name
    if (project / ".git").is_dir():
        shutil.copytree(project, repository)
        return repository
    ignored = shutil.ignore_patterns("__pycache__", "mlruns*", "outputs", ".pytest_cache")
    shutil.copytree(project, repository, ignore=ignored)
    rename_workflows(repository, mark)
    identity = ["-c", "user.name=act-demo", "-c", "user.email=act-demo@example.com"]
    for args in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "The example"]):
        subprocess.run(["git", "-C", str(repository), *args], check=True)
    return repository


def rename_workflows(folder: Path, mark: str) -> None:
    """Add *mark* to the name of each workflow below *folder*.

    act names its containers by workflow and job, and removes containers of that name.
    """
    for file in sorted((*folder.glob(".github/workflows/*.yml"), *folder.glob(".github/workflows/*.yaml"))):
        text = file.read_text(encoding="utf-8")
        renamed, count = re.subn(r"^name: *(.*\w)", rf"name: \1 {mark}", text, count=1, flags=re.MULTILINE)
        file.write_text(renamed if count else f"name: {file.stem} {mark}\n{text}", encoding="utf-8")


def run_act(
    project: Path,
    environment: Mapping[str, str],
    *,
    variables: Mapping[str, str] | None = None,
    capture: bool = False,
    event: str = "push",
    payload: Mapping[str, object] | None = None,
    action: Path | None = None,
    secrets: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run *project*'s workflows on *event*; return act's exit and captured output.

    *payload* is added to what every event of the repository's main branch has. *action* is the folder of the action, by
    default this checkout. *secrets* are those of the workflows: they are no arguments.
    """
    act = str(Path(sys.executable).with_name("act"))
    with tempfile.TemporaryDirectory(prefix="aml-train-act-") as folder:
        # The same in each run of a project, and another one for another project that runs meanwhile.
        mark = hashlib.sha256(str(project.resolve()).encode()).hexdigest()[:6]
        repository = make_repository(project, Path(folder), mark)
        exported = export_action(Path(folder), action or ROOT)
        rename_workflows(exported, mark)
        # act keeps its settings in the home folder, and asks for them where there are none.
        settings = {"XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": str(Path(folder) / "cache")}
        (Path(folder) / "act").mkdir()
        (Path(folder) / "act" / "actrc").write_text("", encoding="utf-8")
        event_file = Path(folder) / "event.json"
        event_file.write_text(json.dumps({**_PAYLOAD, **(payload or {})}), encoding="utf-8")
        command = act_command(
            repository,
            environment,
            act=act,
            action=exported,
            variables=variables,
            event=event,
            payload=event_file,
            secrets=sorted(secrets or {}),
        )
        return subprocess.run(
            command,
            env={**os.environ, **settings, **(secrets or {})},
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            text=True,
            errors="replace",
            check=False,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return act's exit code."""
    parser = argparse.ArgumentParser(prog="scripts.act_demo", description=__doc__)
    parser.add_argument("project", nargs="?", type=Path, default=ROOT / "examples" / "digits")
    project: Path = parser.parse_args(arguments).project
    chosen = {name: value for name, value in os.environ.items() if name.startswith("AML_TRAIN_EMULATOR_")}
    return run_act(project.resolve(), chosen).returncode


if __name__ == "__main__":
    sys.exit(main())
