"""An engine that a test may break: a dockerd of its own, walled off from the machine's.

It has its own network, mounts and processes (unshare(1)), so that it can touch neither the machine's firewall and bridges nor its
containerd; its data root is a small file system in a file. When its first process ends, the kernel ends all the others and
takes the mounts away. It reaches no network: what is to be in it is loaded.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import docker

from scripts.bootstrap.probes import ping_socket

if TYPE_CHECKING:
    from docker import DockerClient

NEEDED: Final = ("dockerd", "containerd", "unshare", "mkfs.ext4", "mount", "ip")
_PATIENCE: Final = 300.0
"""Seconds; a bound for what hangs."""

_WALLED: Final = r"""
set -e
folder=$1 name=$2
mount -t tmpfs tmpfs /run/containerd
mount -o loop "$folder/disk" "$folder/data"
ip link set lo up
exec dockerd --host="unix://$folder/docker.sock" --data-root="$folder/data" --exec-root="$folder/exec" --pidfile="$folder/pid" \
    --exec-opt=native.cgroupdriver=cgroupfs --cgroup-parent="/aml-train-test-$name" \
    --iptables=false --ip6tables=false --ip-masq=false --bip=10.251.7.1/24
"""


def missing() -> str | None:
    """Return why there can be no such engine here, or None."""
    if os.geteuid() != 0:
        return "it needs root"
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        return f"it needs {', '.join(lacking)}"
    return (
        None if Path("/dev/loop-control").exists() and Path("/run/containerd").is_dir() else "it needs loop devices"
    )


@dataclass
class DisposableEngine:
    """A running engine; *folder* holds its socket, its disk and its log."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    clients: list[DockerClient] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which Docker's clients reach it."""
        return {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{self.folder}/docker.sock"}

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start it and wait until it answers."""
        (self.folder / "docker.sock").unlink(missing_ok=True)
        (self.folder / "pid").unlink(missing_ok=True)
        # Processes are counted anew: what had containerd's number may be another one now, and be taken for it.
        (self.folder / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        walls = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*walls, "sh", "-c", _WALLED, "sh", str(self.folder), self.folder.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _PATIENCE
        while not ping_socket(self.folder / "docker.sock").answers:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the engine does not start:\n{self.log}")
            time.sleep(0.1)

    def _children(self) -> list[int]:
        """Return the processes that unshare has forked: none yet, or the first one inside the walls."""
        if self.process is None or self.process.poll() is not None:
            return []
        return [
            int(word)
            for word in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return *command* as it is run inside the walls, in this process's folder."""
        first = self._children()[0]
        return ["nsenter", f"--target={first}", "--net", "--mount", "--pid", f"--wd={Path.cwd()}", *command]

    def client(self) -> DockerClient:
        """Return a client; it is closed at the end."""
        client = docker.DockerClient(base_url=self.environ["DOCKER_HOST"], timeout=600)
        self.clients.append(client)
        return client

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it, as a restart of the service does, or at once by SIGKILL; wait until all of it is gone."""
        if self.process is None or self.process.poll() is not None:
            return
        for child in self._children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def load(self, image: str, source: DockerClient) -> None:
        """Copy *image* from another engine."""
        with tempfile.TemporaryFile() as file:
            for chunk in source.images.get(image).save(named=image):
                file.write(chunk)
            file.seek(0)
            self.client().images.load(file)


@contextlib.contextmanager
def disposable_engine(*, disk: int) -> Iterator[DisposableEngine]:
    """Give an engine with a disk of so many bytes; nothing of it is left."""
    # Not below pytest's folder: the path of a socket has room for about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="aml-engine-"))
    engine = DisposableEngine(folder)
    try:
        (folder / "data").mkdir()
        with (folder / "disk").open("wb") as file:
            file.truncate(disk)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(folder / "disk")], check=True)
        engine.start()
        yield engine
    finally:
        for client in engine.clients:
            client.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.stop()
        _remove_groups(f"aml-train-test-{folder.name}")
        shutil.rmtree(folder)


def _remove_groups(name: str) -> None:
    """Remove the control groups of an engine that has ended, of version 1 and of version 2.

    The kernel may still hold one for a moment after its last process has gone.
    """
    deadline = time.monotonic() + _PATIENCE
    for top in (*Path("/sys/fs/cgroup").glob(f"*/{name}"), *Path("/sys/fs/cgroup").glob(name)):
        for group in (*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top):
            while True:
                try:
                    group.rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
                else:
                    break
