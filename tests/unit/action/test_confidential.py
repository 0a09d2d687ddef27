"""What the runner hands over in confidence is the action's alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

import pytest

from aml_train_action.inputs.confidential import (
    HANDED_OVER,
    for_the_pipeline,
    hidden,
    of_the_runner,
    read_environment,
)

RUNNER = [
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_RUNTIME_URL",
    "ACTIONS_CACHE_URL", "ACTIONS_RESULTS_URL", "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN",
    "INPUT_CLIENT-SECRET", "INPUT_CREDS", "INPUT_SET", "INPUT_WITH\nLINE", "client-secret", "creds",
]  # fmt: skip
PIPELINE = [
    "GITHUB_REPOSITORY",
    "GITHUB_WORKSPACE",
    "GITHUB_RUN_ID",
    "DOCKER_HOST",
    "PATH",
    "HTTPS_PROXY",
    "MY_INPUT_X",
]
WORKFLOW = ["AZURE_CLIENT_SECRET", "AZURE_CREDENTIALS", "PIP_PASSWORD", "PACKAGES_TOKEN"]


class StartedError(Exception):
    """The process would be another one now."""


@pytest.mark.parametrize("name", RUNNER)
def test_the_runners_own_variables_stay_with_the_action(name: str) -> None:
    assert of_the_runner(name)
    assert hidden(name)
    assert for_the_pipeline({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", [*PIPELINE, *WORKFLOW])
def test_the_pipeline_gets_everything_else(name: str) -> None:
    assert for_the_pipeline({name: "x"}) == {name: "x"}
    assert hidden(name) is (name in WORKFLOW)


def test_the_process_starts_again_without_what_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def execute(_path: str, argv: list[str], environ: Mapping[str, str]) -> None:
        started.append((argv, dict(environ)))
        assert os.get_inheritable(int(environ[HANDED_OVER]))
        kept = os.dup(int(environ[HANDED_OVER]))
        started[0][1][HANDED_OVER] = str(kept)
        raise StartedError

    monkeypatch.setattr("os.execve", execute)
    whole = {name: f"value of {name} \udcff" for name in (*RUNNER, *PIPELINE, *WORKFLOW)}
    with pytest.raises(StartedError):
        read_environment(dict(whole), ["python", "-m", "x"])
    ((argv, environ),) = started
    assert argv == ["python", "-m", "x"]
    assert environ.keys() == {*PIPELINE, HANDED_OVER}
    number = int(environ[HANDED_OVER])
    assert read_environment(environ, argv) == whole
    assert HANDED_OVER not in environ
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
