"""How a job's command is started, as far as can be told without starting it."""

from __future__ import annotations

import pytest

from aml_emulator.executor.launch import Launcher, argv


@pytest.mark.parametrize(
    ("launcher", "rest"), [("once", ()), ("processes", ("3",)), ("mpirun", ("3",))], ids=lambda value: str(value)
)
def test_the_command_is_an_argument_of_its_own(launcher: Launcher, rest: tuple[str, ...]) -> None:
    words = argv("echo 'x y'; exit 1", launcher, 3)
    assert words[:2] == ("/bin/sh", "-c")
    assert words[3:] == ("echo 'x y'; exit 1", *rest)
    assert "echo 'x y'" not in words[2]
