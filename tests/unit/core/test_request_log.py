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
