"""The hosted runner's contract with a container action, as actions/runner keeps it.

Source: actions/runner, ``src/Runner.Worker/Handlers/ContainerActionHandler.cs`` and ``Container/DockerCommandManager.cs``:
the mounts, HOME, the file commands, variables passed by name, the workspace that belongs to uid 1001, and on a
cancellation SIGINT, after 7.5 s SIGTERM, after another 2.5 s the end.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.unit.action.runner_model import Runner, unescape

RUNNER_UID = 1001
TIMEOUT = 900.0
_PROPERTY = re.compile(r"([a-zA-Z]+)=([^,]*)")


@dataclass(frozen=True)
class Annotation:
    """One annotation that GitHub would show."""

    kind: str
    text: str
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Step:
    """How the step ended, as the runner sees it."""

    code: int
    log: str
    outputs: Mapping[str, str]
    summary: str
    annotations: list[Annotation] = field(default_factory=list)

    def errors(self) -> list[Annotation]:
        """The annotations of level error."""
        return [annotation for annotation in self.annotations if annotation.kind == "error"]


def read_annotations(log: str) -> list[Annotation]:
    """Return what the log's workflow commands annotate."""
    return [
        Annotation(
            done.name,
            unescape(done.data),
            {key: unescape(value) for key, value in _PROPERTY.findall(done.properties)},
        )
        for done in Runner().read(log).done
        if done.name in {"error", "warning", "notice"}
    ]


def read_outputs(text: str) -> dict[str, str]:
    """Return the values of a GITHUB_OUTPUT file, ``name=value`` and heredocs, as the runner reads them."""
    values: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, mark, delimiter = line.partition("<<")
        if mark and "=" not in name:
            block = []
            for part in lines:
                if part == delimiter:
                    break
                block.append(part)
            else:
                raise AssertionError(f"the output {name} has no end")
            values[name] = "\n".join(block)
        elif line:
            name, _, value = line.partition("=")
            values[name] = value
    return values


def defaults() -> dict[str, str]:
    """Return the inputs of action.yml with their defaults: the runner hands every one of them over."""
    declared = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text(encoding="utf-8"))["inputs"]
    return {name: one.get("default", "") for name, one in declared.items()}


class HostedRunner:
    """Runs the action's image as a step of a job on a hosted runner.

    Args:
        image: the built action.
        folder: stands for the runner's work folder.
        environment: variables of the step, such as those of the local AzureML.
        inputs: what every step of this runner is given.
        repository: ``OWNER/NAME``.
        network: the network of the step's container; None for the engine's default one.
    """

    def __init__(
        self,
        image: str,
        folder: Path,
        environment: Mapping[str, str],
        *,
        inputs: Mapping[str, str] | None = None,
        repository: str = "octo/digits",
        network: str | None = None,
    ) -> None:
        self._network = network
        self._image = image
        self.repository = repository
        self.commit = ""
        self.given = dict(inputs or {})
        self._temp = folder / "_temp"
        #: The folder that is the step's HOME, /github/home.
        self.home = self._temp / "_github_home"
        self.workspace = folder / "repository" / "repository"
        self.environment = dict(environment)
        self.container = f"action-{secrets.token_hex(4)}"
        self._inputs: Mapping[str, str] = {}

    def files(self) -> list[Path]:
        """Return every file that the step could leave to the runner: HOME, file commands, the workflow's own."""
        return [path for path in self._temp.rglob("*") if path.is_file()]

    def checkout(self, project: Path) -> None:
        """Put *project* into the workspace as a repository that belongs to the runner's user."""
        shutil.copytree(project, self.workspace)
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        for args in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "one"]):
            subprocess.run(["git", "-C", str(self.workspace), *args], check=True, capture_output=True)
        head = ["git", "-C", str(self.workspace), "rev-parse", "HEAD"]
        self.commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
        for path in (self.workspace, *self.workspace.rglob("*")):
            os.chown(path, RUNNER_UID, RUNNER_UID, follow_symlinks=False)

    def start(self, inputs: Mapping[str, str], *, options: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start the step; *options* are more of ``docker run``'s, such as a bound of its memory."""
        self._inputs = dict(inputs)
        return self._start(options)

    def _start(self, options: Sequence[str], state: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        for name in ("_github_home", "_github_workflow", "_runner_file_commands"):
            folder = self._temp / name
            folder.mkdir(parents=True, exist_ok=True)
            os.chown(folder, RUNNER_UID, RUNNER_UID)
        payload = {"repository": {"full_name": self.repository, "default_branch": "main"}}
        (self._temp / "_github_workflow" / "event.json").write_text(json.dumps(payload))
        files = {"GITHUB_OUTPUT": "set_output", "GITHUB_STEP_SUMMARY": "step_summary"}
        files |= {"GITHUB_ENV": "set_env", "GITHUB_STATE": "save_state"}
        variables = {
            **{
                f"INPUT_{name.upper().replace(' ', '_')}": value
                for name, value in {**defaults(), **self.given, **self._inputs}.items()
            },
            **{f"STATE_{name}": value for name, value in (state or {}).items()},
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": "/github/workspace",
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_REF": "refs/heads/main",
            "GITHUB_SHA": self.commit,
            "GITHUB_RUN_ID": "1",
            "HOME": "/github/home",
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": "/github/runner_temp",
            **{name: f"/github/file_commands/{file}" for name, file in files.items()},
            **self.environment,
        }
        for file in files.values():
            path = self._temp / "_runner_file_commands" / file
            path.write_text("")
            os.chown(path, RUNNER_UID, RUNNER_UID)
        mounts = {
            "/var/run/docker.sock": "/var/run/docker.sock",
            str(self._temp / "_github_home"): "/github/home",
            str(self._temp / "_github_workflow"): "/github/workflow",
            str(self._temp / "_runner_file_commands"): "/github/file_commands",
            str(self.workspace): "/github/workspace",
        }
        argv = ["docker", "run", "--name", self.container, "--workdir", "/github/workspace", "--rm"]
        argv += ["--network", self._network] if self._network is not None else []
        for name in variables:
            argv += ["-e", name]
        for source, target in mounts.items():
            argv += ["-v", f"{source}:{target}"]
        return subprocess.Popen(
            [*argv, *options, self._image],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def finish(self, process: subprocess.Popen[str], *, log: str | None = None) -> Step:
        """Wait for the end of the step and read what it left. *log* is given where somebody has read it already."""
        if log is None:
            log, _ = process.communicate(timeout=TIMEOUT)
        commands = self._temp / "_runner_file_commands"
        return Step(
            code=process.returncode,
            log=log,
            outputs=read_outputs((commands / "set_output").read_text()),
            summary=(commands / "step_summary").read_text(),
            annotations=read_annotations(log),
        )

    def run(self, inputs: Mapping[str, str] | None = None, *, options: Sequence[str] = ()) -> Step:
        """Run the step to its end; see :meth:`start`."""
        return self.finish(self.start(inputs or {}, options=options))

    def state(self) -> dict[str, str]:
        """Return what the step has left to its post action by now."""
        return read_outputs((self._temp / "_runner_file_commands" / "save_state").read_text())

    def post(self, state: Mapping[str, str] | None = None) -> Step:
        """Run what the action declares for after the step, with the step's inputs and its *state*, by default the last."""
        declared = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text(encoding="utf-8"))["runs"]
        return self.finish(self._start(["--entrypoint", declared["post-entrypoint"]], state or self.state()))

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End the step's container without a warning."""
        subprocess.run(["docker", "kill", "--signal", "KILL", self.container], check=True, capture_output=True)
        process.wait(TIMEOUT)

    def cancel(self, process: subprocess.Popen[str]) -> None:
        """Cancel as the runner does: SIGINT, SIGTERM after 7.5 s, the end after another 2.5 s."""
        for number, patience in ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5)):
            process.send_signal(number)
            deadline = time.monotonic() + patience
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
        if process.poll() is None:
            process.kill()
            subprocess.run(["docker", "kill", self.container], check=False, capture_output=True)
