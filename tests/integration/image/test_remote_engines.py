"""Engines elsewhere, of another major version: by ssh, by TLS, and by a Docker context."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.image.builder_project import (
    SECONDS,
    Ended,
    check_same,
    context_of,
    pushed_base,
    registry_inside,
    run_project,
)
from tests.integration.image.disposable_engine import DisposableEngine, disposable_engine, missing
from tests.support.emulator_process import Emulator, running
from tests.support.scheduling import one_at_a_time
from tests.support.tls import Authority

if TYPE_CHECKING:
    from docker import DockerClient


KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHIVE: Final = "http://deb.debian.org/debian"
_KEPT: Final = Path(__file__).parents[3] / ".aml-train" / "debian"
_SECONDS: Final = 300
_NEEDED: Final = ("apt-get", "dpkg-deb")


class UnavailableError(Exception):
    """The packages cannot be had here; the message says why."""


def unpacked(release: str, packages: Sequence[str]) -> Path:
    """Return a folder that holds the files of *packages*; it is kept for the next call.

    Args:
        release: such as ``trixie``.
        packages: names, without their dependencies.

    Raises:
        UnavailableError: this machine has no apt or no keys of Debian, or the archive does not answer.
    """
    if lacking := [name for name in _NEEDED if shutil.which(name) is None]:
        raise UnavailableError(f"{', '.join(lacking)} is not here")
    if not KEYS.exists():
        raise UnavailableError(f"Debian's keys are not here: {KEYS}, of the package debian-archive-keyring")
    folder = _KEPT / "-".join((release, *sorted(packages)))
    with one_at_a_time(f"debian-{folder.name}"):
        if not (folder / "root").is_dir():
            _fetch(folder, release, packages)
    return folder / "root"


def _fetch(folder: Path, release: str, packages: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "new"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYS}] {ARCHIVE} {release} main\n")
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::status": "/dev/null",
        "APT::Architecture": "amd64",
        "Acquire::Retries": 3,
    }
    options = [f"--option={key}={value}" for key, value in settings.items()]
    _run(["apt-get", *options, "update", "--error-on=any"], folder)
    _run(["apt-get", *options, "download", *packages], folder)
    for file in sorted(folder.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(file), str(folder / "new")], folder)
        file.unlink()
    shutil.rmtree(folder / "lists")
    (folder / "new").rename(folder / "root")


def _run(command: Sequence[str], folder: Path) -> None:
    environ = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} took longer than {_SECONDS} seconds") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason is given"]
        raise UnavailableError(f"{command[0]} failed: {lines[-1]}")


pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        missing(connected=True) is not None, reason=f"no engine of the test's own: {missing(connected=True)}"
    ),
]

RELEASE: Final = "trixie"
MAJOR: Final = 26
"""The major version of Docker in that release."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """An engine elsewhere.

    Attributes:
        tls: the folder of a client's certificate.
        environ: variables of the clients: a configuration of Docker with the context, and ssh.
    """

    engine: DisposableEngine
    tls: Path
    environ: dict[str, str]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service


@pytest.fixture(scope="module")
def base(emulator: Emulator, engine: DockerClient) -> Iterator[str]:
    with pushed_base(emulator, engine) as name:
        yield name


@pytest.fixture(scope="module")
def first(emulator: Emulator, base: str, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The project as this machine's engine builds it."""
    ended = run_project(emulator, tmp_path_factory.mktemp("first") / "project", base, "local", "elsewhere/local")
    assert ended.code == 0, ended.errors
    return ended


def programs(release: str, *packages: str) -> Path:
    try:
        return unpacked(release, packages)
    except UnavailableError as error:
        pytest.skip(f"the packages of Debian {release} cannot be had: {error}")


@pytest.fixture(scope="module")
def remote(emulator: Emulator, engine: DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    folder, tls = tmp_path_factory.mktemp("remote"), tmp_path_factory.mktemp("client")

    def prepare(prepared: DisposableEngine) -> Sequence[str]:
        authority, own = Authority(), prepared.folder / "tls"
        authority.write(own, address=f"{prepared.network}.2")
        authority.write(tls)
        names = {"tlscacert": "ca.pem", "tlscert": "cert.pem", "tlskey": "key.pem"}
        return ["--host=tcp://0.0.0.0:2376", "--tlsverify", *(f"--{key}={own / name}" for key, name in names.items())]

    found = programs(RELEASE, "containerd", "docker.io")
    with (
        disposable_engine(disk=4 << 30, connected=True, programs=found, prepare=prepare) as another,
        registry_inside(another, emulator, folder),
    ):
        version = another.client().version()["Version"]
        assert version.startswith(f"{MAJOR}.")
        assert version.partition(".")[0] != engine.version()["Version"].partition(".")[0]
        endpoint = f"host=tcp://{another.address}:2376,ca={tls}/ca.pem,cert={tls}/cert.pem,key={tls}/key.pem"
        yield Remote(engine=another, tls=tls, environ=context_of(endpoint, folder))
        left = another.client().containers.list(all=True)
    assert left == []


@pytest.fixture
def ssh(remote: Remote, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve ssh inside the engine's walls; give the variables by which the command ssh finds its way there."""
    server, libraries = _sshd()
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    (tmp_path / "users").write_text(
        f"{Path('/etc/passwd').read_text()}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 0.0.0.0:2222\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/client.pub\n"
        "StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nUsePAM no\nPidFile none\n"
    )
    script = 'mkdir -p /run/sshd && mount --bind "$1/users" /etc/passwd && exec "$2" -D -e -f "$1/sshd_config"'
    inside = remote.engine.inside(["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), str(server)])
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(inside, env={**os.environ, "LD_LIBRARY_PATH": libraries}, stdout=log, stderr=log)
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "ssh"
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -p 2222"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} -i {tmp_path}/client "$@"\n')
    wrapper.chmod(0o755)
    try:
        _await(lambda: b"Server listening" in (tmp_path / "log").read_bytes(), process)
        yield {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    finally:
        process.terminate()
        process.wait(SECONDS)


def _sshd() -> tuple[Path, str]:
    """Return a server of ssh, this machine's or its release's, and the folder of its libraries."""
    if (installed := shutil.which("sshd")) is not None:
        return Path(installed), ""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    if release.get("ID") != "debian":
        pytest.skip("no server of ssh is installed, and its package is not Debian's")
    root = programs(release["VERSION_CODENAME"], "openssh-server", "libwrap0")
    return root / "usr/sbin/sshd", f"{root}/usr/lib/x86_64-linux-gnu"


def _await(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run(emulator: Emulator, base: str, builder: str, name: str, folder: Path, environ: dict[str, str]) -> Ended:
    ended = run_project(emulator, folder / "project", base, builder, name, environ)
    assert ended.code == 0, ended.errors
    return ended


def test_an_engine_by_tls(emulator: Emulator, base: str, first: Ended, remote: Remote, tmp_path: Path) -> None:
    builder = f"{{kind: remote, engine: 'tcp://{remote.engine.address}:2376', tls: {remote.tls}}}"
    ended = run(emulator, base, builder, "elsewhere/tls", tmp_path, {})
    check_same(emulator, ended, first, "elsewhere/tls", "elsewhere/local")


def test_an_engine_by_ssh(
    emulator: Emulator, base: str, first: Ended, remote: Remote, ssh: dict[str, str], tmp_path: Path
) -> None:
    builder = f"{{kind: remote, engine: 'ssh://root@{remote.engine.address}'}}"
    ended = run(emulator, base, builder, "elsewhere/ssh", tmp_path, ssh)
    check_same(emulator, ended, first, "elsewhere/ssh", "elsewhere/local")
