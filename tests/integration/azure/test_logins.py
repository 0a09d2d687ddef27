"""The login of a person: a program on the path that gives tokens, against the emulator in Azure's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from tests.integration.azure.test_azure import configure
from tests.support.emulator_process import ROOT, Emulator

SECONDS = 300


@pytest.fixture
def project(instant: Emulator, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.yml").write_text("command: say hello\nenvironment: {image: 'python:3.11'}\n")
    configure(folder, instant)
    return folder


def token_of(instant: Emulator) -> str:
    """Return a token of the emulator's Entra ID, as a login has one."""
    known = instant.environment()
    form = {
        "grant_type": "client_credentials",
        "client_id": known["AZURE_CLIENT_ID"],
        "client_secret": known["AZURE_CLIENT_SECRET"],
        "scope": "https://management.azure.com/.default",
    }
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"https": known["HTTPS_PROXY"]}
        session.verify = known["REQUESTS_CA_BUNDLE"]
        url = f"https://login.microsoftonline.com/{known['AZURE_TENANT_ID']}/oauth2/v2.0/token"
        answer = session.post(url, data=form, timeout=60)
    text: str = answer.json()["access_token"]
    return text


def install(folder: Path, name: str, answer: str, *, code: int = 0) -> Path:
    """Make a program that answers, and keeps its arguments."""
    folder.mkdir(exist_ok=True)
    script = folder / name
    stream = ">&2" if code else ""
    (folder / f"{name}.answer").write_text(answer)
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/{name}.log\ncat {folder}/{name}.answer {stream}\nexit {code}\n'
    )
    script.chmod(0o755)
    return folder


def command(
    instant: Emulator, project: Path, path: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run aml-train on a machine that knows proxy and trust alone, and has programs in *path*."""
    known = {name: value for name, value in instant.environment().items() if not name.startswith("AZURE_")}
    return subprocess.run(
        [sys.executable, "-m", "aml_train", *arguments],
        cwd=project,
        env={
            **known,
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(project.parent),
            "PYTHONPATH": str(ROOT / "runner"),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def answer_of_az(instant: Emulator) -> str:
    return json.dumps(
        {"accessToken": token_of(instant), "expires_on": int(time.time()) + 3600, "tokenType": "Bearer"}
    )


def test_the_login_of_az_is_used_on_a_laptop_and_not_in_ci(instant: Emulator, project: Path, tmp_path: Path) -> None:
    path = install(tmp_path / "bin", "az", answer_of_az(instant))
    listed = command(instant, project, path, "jobs", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout == ""
    subscription = instant.info["subscription_id"]
    # Once for all requests of the command, for the account that sees the subscription.
    asked = (path / "az.log").read_text().splitlines()
    assert len(asked) == 1
    assert asked[0].endswith(f"--resource https://management.azure.com --subscription {subscription}")
    refused = command(instant, project, path, "jobs", "list", CI="true")
    assert refused.returncode == 8
    assert "nothing is given to sign in with" in refused.stderr
    assert "az login" in refused.stderr
    assert "Traceback" not in refused.stderr
    named = command(instant, project, path, "jobs", "list", CI="true", AML_TRAIN_SIGN_IN="cli")
    assert named.returncode == 0, named.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ERROR: Please run 'az login' to setup account.", "Sign in: az login."),
        ("ERROR: AADSTS70043: The refresh token has expired.", "AADSTS70043"),
        ("not JSON", "Sign in: az login."),
    ],
)
def test_a_login_that_is_missing_or_over(
    instant: Emulator, project: Path, tmp_path: Path, said: str, expected: str
) -> None:
    path = install(tmp_path / "bin", "az", said, code=0 if said == "not JSON" else 1)
    ended = command(instant, project, path, "jobs", "list")
    assert ended.returncode == 8, ended.stderr
    assert expected in ended.stderr
    assert "Sign in: az login." in ended.stderr
    assert "Traceback" not in ended.stderr
