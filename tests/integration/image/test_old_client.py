"""An engine that refuses what an old docker command speaks, as Docker Engine 29.0 to 29.2 do with API versions below 1.44."""

from __future__ import annotations

import http.server
import json
import os
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from aml_train.core.docker import buildkit_cli
from aml_train.core.errors import ImageError
from aml_train.image.build.build import build_image
from aml_train.image.spec import ImageSpec
from tests.integration.conftest import Recorder

if TYPE_CHECKING:
    from docker import DockerClient

_LOWEST: Final = 44
_REFUSAL: Final = "client version 1.{} is too old. Minimum supported API version is 1.44, please upgrade your client to a newer version"


class NewEngine(http.server.BaseHTTPRequestHandler):
    """Answers as such an engine does: the ping says what it speaks, and a call of an older version is refused (moby, versionUnsupportedError)."""

    def _answer(self) -> None:
        version = re.match(r"/v1\.(\d+)/", self.path)
        refused = version is not None and int(version[1]) < _LOWEST
        body = json.dumps({"message": _REFUSAL.format(version[1]) if refused and version else "not played"}).encode()
        if self.path.endswith("/_ping"):
            refused, body = False, b"OK"
        self.send_response(400 if refused else 200 if body == b"OK" else 404)
        for name, value in (("API-Version", "1.52"), ("Builder-Version", "2"), ("OSType", "linux")):
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - the names that the base class calls

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture
def new_engine(tmp_path: Path) -> Iterator[str]:
    """Address of the engine."""
    path = tmp_path / "engine.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), NewEngine) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()


def test_a_client_that_the_engine_refuses_is_named(
    spec: ImageSpec, engine: DockerClient, recorder: Recorder, new_engine: str
) -> None:
    """The variable has any client speak an old version, as Debian 12's does by itself."""
    cli = buildkit_cli({**os.environ, "DOCKER_HOST": new_engine, "DOCKER_API_VERSION": "1.41"})
    with pytest.raises(
        ImageError, match=r"too old for the engine: it speaks API 1\.41, and the engine none below 1\.44"
    ):
        build_image(spec, cli=cli, engine=engine, tag=f"{spec.repository}:test", listener=recorder)
