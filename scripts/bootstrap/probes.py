"""The facts, read from the machine. Nothing is changed here."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.bootstrap.decisions import Host

SOCKET = Path("/var/run/docker.sock")
PID_FILE = Path("/var/run/docker.pid")
_PING = b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n"
# A machine that is busy with all its tests or with a download answers late, and must not count as one that lacks something.
_PING_SECONDS = 20.0
_ASK_SECONDS = 120.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def probe_host() -> Host:
    """Find out what kind of machine this is."""
    return Host(
        root=os.geteuid() == 0,
        system=platform.system(),
        apt=shutil.which("apt-get") is not None and _is_debian_like(Path("/etc/os-release")),
        systemd=Path("/run/systemd/system").is_dir(),
        python=sys.version_info[:2],
    )


def _is_debian_like(os_release: Path) -> bool:
    if not os_release.exists():
        return False
    release = parse_os_release(os_release.read_text(encoding="utf-8"))
    return bool({"debian", "ubuntu"} & {release.get("ID", ""), *release.get("ID_LIKE", "").split()})


def parse_os_release(text: str) -> dict[str, str]:
    """Read the lines ``NAME=value`` of os-release(5)."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name: value.strip("\"'") for name, _, value in pairs}


def can_make_venvs() -> bool:
    """Whether this Python has ensurepip, which Debian packages separately."""
    return importlib.util.find_spec("ensurepip") is not None


@dataclass(frozen=True, kw_only=True)
class Ping:
    """Whether an engine answered; if not, why, and whether permission was lacking."""

    answers: bool
    error: str = ""
    forbidden: bool = False


def ping_engine(docker_host: str | None) -> Ping:
    """Ping the engine: over its socket, or with a docker command if that is elsewhere."""
    if docker_host is None:
        return ping_socket(SOCKET)
    if docker_host.startswith("unix://"):
        return ping_socket(Path(docker_host.removeprefix("unix://")))
    code, output = ask(["docker", "version", "--format", "{{.Server.Version}}"])
    return Ping(answers=code == 0, error=output)


def ping_socket(path: Path) -> Ping:
    """Ping the engine behind a Unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PING_SECONDS)
        try:
            connection.connect(str(path))
            connection.sendall(_PING)
            answer = connection.recv(64)
        except PermissionError as error:
            return Ping(answers=False, error=f"{path}: {error.strerror}", forbidden=True)
        except OSError as error:
            return Ping(answers=False, error=f"{path}: {error.strerror or error}")
    if b" 200 " in answer.split(b"\r\n")[0]:
        return Ping(answers=True)
    return Ping(answers=False, error=f"{path}: answered {answer[:40]!r}")


def find_daemon_process(processes: Path = Path("/proc")) -> int | None:
    """Return the process id of a ``dockerd`` that this machine sees, or None."""
    for folder in processes.glob("[0-9]*"):
        try:
            name, state = parse_process((folder / "stat").read_text(encoding="utf-8", errors="replace"))
        except OSError:  # it ended in the meantime
            continue
        # One that was killed stays in the list until its parent, which a container may not have, asks how it ended.
        if name == "dockerd" and state not in ("Z", "X"):
            return int(folder.name)
    return None


def parse_process(stat: str) -> tuple[str, str]:
    """Return a process's name and state from ``/proc/PID/stat``.

    The line is ``7 (dockerd) S 1 …`` (proc_pid_stat(5)); the name may contain anything.
    """
    head, _, tail = stat.rpartition(")")
    return head.partition("(")[2], tail.split()[0] if tail.split() else ""


@dataclass(frozen=True, kw_only=True)
class Cli:
    """A ``docker`` program: path, major version, and whether it has the buildx plugin."""

    path: str
    major: int
    buildx: bool

    @property
    def buildkit(self) -> bool:
        """Whether it builds with BuildKit: from version 23 on only with the plugin."""
        return self.buildx or 18 < self.major < 23


def find_docker_clis() -> list[Cli]:
    """Find every ``docker`` on PATH, up to the first that can build with BuildKit."""
    found: list[Cli] = []
    seen: set[str] = set()
    for folder in os.get_exec_path():
        path = shutil.which("docker", path=folder)
        if path is None or os.path.realpath(path) in seen:
            continue
        seen.add(os.path.realpath(path))
        code, version = ask([path, "--version"])
        if code != 0:
            continue
        major = parse_docker_version(version)
        buildx = not 18 < major < 23 and ask([path, "buildx", "version"])[0] == 0
        found.append(Cli(path=path, major=major, buildx=buildx))
        if found[-1].buildkit:
            break
    return found


def parse_docker_version(text: str) -> int:
    """Return the major version in ``Docker version 20.10.24+dfsg1, …``, or 0."""
    words = text.split()
    number = words[2].partition(".")[0] if len(words) > 2 else ""
    return int(number) if number.isdigit() else 0


def image_labels(docker: str, reference: str) -> dict[str, str] | None:
    """Return the labels of an image that the engine has, or None where it has not."""
    code, output = ask([docker, "image", "inspect", "--format", "{{json .Config.Labels}}", reference])
    return dict(json.loads(output) or {}) if code == 0 else None


def find_browser(named: str | None) -> str | None:
    """Return the tests' Chrome or Chromium: *named*, else the first on PATH, or None."""
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def node_major(path: str) -> int | None:
    """Return the major version of a Node.js that comes with npm on *path*, or None."""
    node = shutil.which("node", path=path)
    if node is None or shutil.which("npm", path=path) is None:
        return None
    code, version = ask([node, "--version"])
    number = version.lstrip("v").partition(".")[0]
    return int(number) if code == 0 and number.isdigit() else None


def ask(argv: list[str]) -> tuple[int, str]:
    """Run a read-only program; return its exit code, and its output or error."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip()
