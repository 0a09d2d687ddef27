"""The line of each request."""

from __future__ import annotations

import re
from unittest import mock

import click
import pytest
import urllib3
from click.testing import CliRunner
from urllib3.connectionpool import HTTPConnectionPool

from aml_train.cli.options import OutputOptions, output_options
from aml_train.core.http_client import logged_requests


def test_a_line_has_status_time_and_id_and_no_query() -> None:
    answer = urllib3.HTTPResponse(status=403, headers={"x-ms-request-id": "1f-2e"})
    lines: list[str] = []
    with mock.patch.object(HTTPConnectionPool, "urlopen", return_value=answer) as original:
        with logged_requests(lines.append):
            pool = HTTPConnectionPool("store.blob.core.windows.net")
            assert pool.urlopen("GET", "/c/blob?sig=secret", body=b"text") is answer
        assert HTTPConnectionPool.urlopen is original
    (line,) = lines
    assert re.fullmatch(
        r"GET http://store\.blob\.core\.windows\.net/c/blob: 403 after \d+\.\d{3} s, request id 1f-2e", line
    )


def test_a_request_without_an_answer_names_the_error() -> None:
    lines: list[str] = []
    failure = urllib3.exceptions.ProtocolError("closed")
    with (
        mock.patch.object(HTTPConnectionPool, "urlopen", side_effect=failure),
        logged_requests(lines.append),
        pytest.raises(urllib3.exceptions.ProtocolError),
    ):
        HTTPConnectionPool("a.b").urlopen("PUT", "/x")
    assert lines[0].startswith("PUT http://a.b/x: ProtocolError after ")


def test_requests_to_the_engine_are_left_out() -> None:
    lines: list[str] = []

    class EnginePool(HTTPConnectionPool):
        __module__ = "docker.transport.unixconn"

    with mock.patch.object(HTTPConnectionPool, "urlopen"), logged_requests(lines.append):
        EnginePool("localhost").urlopen("GET", "/_ping")
    assert lines == []


@pytest.mark.parametrize(("flags", "shown"), [(["-v"], False), (["-vv"], True)])
def test_the_command_line_shows_requests_with_vv(flags: list[str], shown: bool) -> None:
    @click.command()
    @output_options
    def command(output: OutputOptions) -> None:
        HTTPConnectionPool("a.b").urlopen("GET", "/x")

    with mock.patch.object(HTTPConnectionPool, "urlopen", return_value=urllib3.HTTPResponse(status=200)):
        result = CliRunner().invoke(command, flags)
    assert result.exit_code == 0
    assert ("GET http://a.b/x: 200 after " in result.stderr) is shown
