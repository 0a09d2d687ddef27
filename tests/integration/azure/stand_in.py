"""A stand-in of GitHub's OIDC endpoint, and a client that knows nothing but the environment of a workflow's step."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.emulator_process import ROOT, Emulator

REQUEST_TOKEN = "the-request-token"
REPOSITORY = "octo/digits"
CLIENT_SECONDS = 900


def assertion(
    audience: str,
    *,
    lifetime: float = 300.0,
    number: int = 0,
    now: float | None = None,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """Return a token as GitHub would issue it at *now*; its signature is nonsense."""
    now = time.time() if now is None else now
    claims = {
        "iss": "https://token.actions.githubusercontent.com",
        "sub": f"repo:{REPOSITORY}:ref:refs/heads/main",
        "aud": audience,
        "repository": REPOSITORY,
        "ref": "refs/heads/main",
        "jti": str(number),
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now) + lifetime,
        **(extra or {}),
    }
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, base64.urlsafe_b64encode(b"signature").rstrip(b"=").decode()])


@dataclass
class GitHub:
    """What the endpoint answers, and what it was asked."""

    status: int = 200
    lifetime: float = 300.0
    clock: Callable[[], float] = time.time
    claims: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)
    port: int = 0

    def answer(self, target: str, authorization: str) -> tuple[int, dict[str, Any]]:
        audience = parse_qs(urlsplit(target).query).get("audience", [""])[0]
        self.asked.append(audience)
        if self.status != 200 or authorization != f"Bearer {REQUEST_TOKEN}":
            return (self.status if self.status != 200 else 401), {"message": "no"}
        token = assertion(
            audience, lifetime=self.lifetime, number=len(self.asked), now=self.clock(), extra=self.claims
        )
        self.issued.append(token)
        return 200, {"value": token}

    def environment(self) -> dict[str, str]:
        """Return what the runner sets for a job that may have tokens."""
        return {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"http://127.0.0.1:{self.port}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }


def serve(github: GitHub) -> ThreadingHTTPServer:
    """Serve *github* on a loopback port until the server is shut down."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, value = github.answer(self.path, self.headers.get("Authorization", ""))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@dataclass(frozen=True)
class Ended:
    """How a client ended."""

    code: int
    output: str
    outputs: str


class Workflow:
    """Runs steps against *emulator*, which plays Azure, and *github*."""

    def __init__(self, emulator: Emulator, github: GitHub, folder: Path) -> None:
        self.emulator = emulator
        self.github = github
        self.folder = folder

    def environment(self) -> dict[str, str]:
        """Return the environment of a step: proxy and trust, whom to sign in as, no secret."""
        known = self.emulator.environment()
        del known["AZURE_CLIENT_SECRET"]
        outer = {name: os.environ[name] for name in ("DOCKER_HOST", "DOCKER_CONFIG") if name in os.environ}
        paths = os.pathsep.join(str(ROOT / name) for name in ("runner", "action"))
        return {**known, **outer, "PYTHONPATH": paths, "HOME": str(self.folder)}

    def action(self, project: Path, *, changes: dict[str, str] | None = None, **inputs: str) -> Ended:
        """Run the action in *project* as a step."""
        outputs = self.folder / "outputs"
        outputs.write_text("")
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        environment = {
            **self.environment(),
            **self.github.environment(),
            **given,
            "GITHUB_WORKSPACE": str(project),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_EVENT_NAME": "push",
            **(changes or {}),
        }
        ended = self._run([sys.executable, "-m", "aml_train_action"], project, environment)
        return Ended(ended.code, ended.output, outputs.read_text())

    def command(self, project: Path, *args: str, **variables: str) -> Ended:
        """Run `aml-train` in *project*."""
        argv = [sys.executable, "-m", "aml_train", *args]
        return self._run(argv, project, {**self.environment(), **variables})

    def _run(self, argv: list[str], project: Path, environment: dict[str, str]) -> Ended:
        done = subprocess.run(
            argv,
            env=environment,
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, "")
