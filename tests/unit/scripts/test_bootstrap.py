"""The parts around the decisions: parsing, hashing, retries, the loop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bootstrap import needs, sources
from scripts.bootstrap.commands import BootstrapError, CommandFailedError, Shell
from scripts.bootstrap.decisions import (
    AptInstall,
    BaseImageFacts,
    Decision,
    Host,
    ImportStandIn,
    PullImage,
    Step,
    decide_base_image,
)
from scripts.bootstrap.stand_in import DEFAULT_MIRROR, AptSource, find_mirror, parse_deb822, parse_one_line
from scripts.lock import LOCKS

ROOT = Path(__file__).resolve().parents[3]
HOST = Host(root=True, system="Linux", apt=True, systemd=False, python=(3, 11))


ONE_LINE = """
# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] https://packages.example/apt tool-bookworm main
deb http://ftp.de.debian.org/debian/ bookworm main contrib   # the mirror
deb-src http://ftp.us.debian.org/debian bookworm main
"""
DEB822 = """Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm
Components: main
"""


@pytest.mark.parametrize(
    ("found", "mirror"),
    [
        (parse_one_line(ONE_LINE), "http://ftp.de.debian.org/debian"),
        (parse_deb822(DEB822), "http://mirror.example/debian"),
        (parse_one_line("deb http://archive.ubuntu.com/ubuntu noble main"), DEFAULT_MIRROR),
        (parse_one_line("deb https://download.docker.com/linux/debian bookworm stable"), DEFAULT_MIRROR),
        (iter(()), DEFAULT_MIRROR),
    ],
)
def test_the_stand_in_comes_from_the_machines_own_mirror(found: Iterator[AptSource], mirror: str) -> None:
    assert find_mirror(found) == mirror


def test_hashes_cover_names_and_contents_and_no_bytecode(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "a.py").write_text("1")
    first = sources.hash_files(tmp_path, (package,))

    (package / "__pycache__").mkdir()
    (package / "__pycache__/a.pyc").write_text("bytecode")
    assert sources.hash_files(tmp_path, (package, tmp_path / "missing")) == first

    (package / "a.py").rename(package / "b.py")
    renamed = sources.hash_files(tmp_path, (package,))
    (package / "b.py").write_text("2")
    assert len({first, renamed, sources.hash_files(tmp_path, (package,))}) == 3
    assert sources.hash_files(tmp_path, (package,), "x") != sources.hash_files(tmp_path, (package,), "y")


def test_the_version_is_read_without_an_import() -> None:
    from aml_train import __version__
    from aml_train.local.settings import IMAGE

    assert sources.project_version(ROOT) == __version__
    assert sources.emulator_reference(ROOT) == IMAGE == f"aml-train-emulator:{__version__}"


class FlakyShell(Shell):
    """A shell whose programs fail a given number of times."""

    failures = 0

    def run(self, argv, **_):  # type: ignore[no-untyped-def]
        type(self).failures -= 1
        if self.failures >= 0:
            raise CommandFailedError(argv, "exit code 100", "E: no network", self.log)
        return "fetched"


@pytest.mark.parametrize(("failures", "pauses"), [(0, []), (1, [2.0]), (2, [2.0, 5.0]), (3, [2.0, 5.0, 20.0])])
def test_the_network_gets_several_chances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, pauses: list[float]
) -> None:
    said: list[str] = []
    slept: list[float] = []
    monkeypatch.setattr(FlakyShell, "failures", failures)
    shell = FlakyShell(root=tmp_path, log=tmp_path / "log", say=said.append, sleep=slept.append)

    assert shell.run_patiently(["apt-get", "update"]) == "fetched"

    assert slept == pauses
    assert all("apt-get failed (E: no network)" in line for line in said)


class ScriptedMachine(needs.Machine):
    """A machine whose base image follows from what was done to it."""

    def __init__(self, shell: Shell, host: Host, *, pull_works: bool) -> None:
        super().__init__(shell, host, self.perform)
        self.done: list[Step] = []
        self.facts = BaseImageFacts(host=host, reference="base:1", present=False)
        self.pull_works = pull_works

    def perform(self, step: Step, shell: Shell, _host: Host) -> None:
        self.done.append(step)
        match step:
            case PullImage() if not self.pull_works:
                raise CommandFailedError(["docker", "pull"], "exit code 1", "no such host", shell.log)
            case PullImage() | ImportStandIn():
                self.facts = replace(self.facts, present=True)
            case AptInstall():
                self.facts = replace(self.facts, debootstrap=True)

    def _decide(self, need: str, attempted: frozenset[type[Step]]) -> Decision:
        assert need == "base-image"
        return decide_base_image(replace(self.facts, pull_error=self._pull_error, attempted=attempted))


@pytest.mark.parametrize(
    ("pull_works", "expected"), [(True, [PullImage]), (False, [PullImage, AptInstall, ImportStandIn])]
)
def test_the_loop_goes_on_until_the_need_is_met(tmp_path: Path, pull_works: bool, expected: list[type[Step]]) -> None:
    said: list[str] = []
    machine = ScriptedMachine(
        Shell(root=tmp_path, log=tmp_path / "log", say=said.append), HOST, pull_works=pull_works
    )
    assert machine.satisfy("base-image") == len(expected)
    assert [type(step) for step in machine.done] == expected
    assert any("STAND-IN" in line for line in said) is not pull_works


def test_the_loop_ends_with_instructions_where_nothing_can_be_done(tmp_path: Path) -> None:
    machine = ScriptedMachine(
        Shell(root=tmp_path, log=tmp_path / "log", say=lambda _: None), replace(HOST, root=False), pull_works=False
    )
    with pytest.raises(
        BootstrapError, match=r"base:1 could not be pulled: no such host\n  → make `docker pull base:1`"
    ):
        machine.satisfy("base-image")


def test_each_lock_file_has_its_recipe_and_shares_versions() -> None:
    assert {lock.name for lock in LOCKS} == {path.name for path in (ROOT / "requirements").glob("*.txt")}
    client = next(lock for lock in LOCKS if lock.name == "client.txt")
    versions = [
        dict(re.findall(r"(?m)^(\S+)==(\S+)", (ROOT / "requirements" / name).read_text()))
        for name in ("dev.txt", "client.txt")
    ]
    differing = {name for name, version in versions[1].items() if versions[0].get(name, version) != version}
    assert differing <= set(client.but)
