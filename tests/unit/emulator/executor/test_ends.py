"""The file in which a job's processes report their ends, and which the job can write into."""

from __future__ import annotations

import pytest

from aml_emulator.executor.containers import read_ends


def test_ends_are_read() -> None:
    assert list(read_ends(b"0 1 12345.67\n1 143 12345.7\n")) == [(0, 1, 12345.67), (1, 143, 12345.7)]


@pytest.mark.parametrize(
    "line",
    [
        b"training ended well",
        b"-1 0 1.0",
        b"0 0 nan",
        b"0 0 inf",
        b"0 " + b"9" * 5000 + b" 1.0",
        "\N{SUPERSCRIPT TWO} 0 1.0".encode(),
        b"0 0 1_000.0",
        b"\xff 0 1.0",
        b"",
    ],
)
def test_lines_that_the_job_wrote_are_left_out(line: bytes) -> None:
    assert list(read_ends(line + b"\n0 2 3.5\n")) == [(0, 2, 3.5)]
