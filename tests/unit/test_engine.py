from __future__ import annotations

import pytest

from aml_train.engine import CliProbe, choose_cli, parse_version


def _probe(path: str, version: tuple[int, int] | None, *, buildx: bool = False) -> CliProbe:
    return CliProbe(path=path, version=version, buildx=buildx)


@pytest.mark.parametrize(
    ("probes", "chosen"),
    [
        ([], None),
        ([_probe("a", (28, 2))], None),
        ([_probe("a", None)], None),
        ([_probe("a", (18, 6))], None),
        ([_probe("a", (20, 10))], "a"),
        ([_probe("a", (22, 9))], "a"),
        ([_probe("a", (23, 0))], None),
        ([_probe("a", (28, 2)), _probe("b", (20, 10))], "b"),
        ([_probe("a", (20, 10)), _probe("b", (28, 2), buildx=True)], "b"),
        ([_probe("a", None, buildx=True), _probe("b", (20, 10))], "a"),
    ],
)
def test_which_client_builds(probes: list[CliProbe], chosen: str | None) -> None:
    found = choose_cli(probes)
    assert (found.path if found else None) == chosen


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", (20, 10)),
        ("Docker version 28.2.2, build e6534b4\n", (28, 2)),
        ("podman version 5.0.0", None),
        ("", None),
    ],
)
def test_version(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version
