"""The part of ``docker run``'s arguments that a job may use. Pure.

A job's additions to its own container (limits, harmless capabilities, variables) are carried out. Those that would
reach out of the container (mounts, devices, networks, other users' processes, privileges) are refused by name.
Arguments are those of https://docs.docker.com/reference/cli/docker/container/run/.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.reading import whole

CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
        *("IPC_LOCK", "PERFMON", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE"),
    }
)
"""The engine's defaults, and those that profilers, debuggers and RDMA ask for."""

ULIMITS = frozenset(
    {
        *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss"),
        *("rtprio", "rttime", "sigpending", "stack"),
    }
)

IPC_MODES: Final = ("none", "private", "shareable")
"""Not the machine's own: its /dev/shm is other processes' memory."""

_SIZE = re.compile(r"([0-9]{1,15})([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_SHORT = {"-e": "--env", "-m": "--memory", "-h": "--hostname"}
_MOST_PIDS: Final = 2**22
_VARIABLE = re.compile(r"[^=\x00-\x20]+")


@dataclass(frozen=True, kw_only=True)
class DockerOptions:
    """The options that the arguments set.

    Attributes:
        host: keywords of docker-py's ``create_host_config``; only what JSON can hold.
        environment: further variables of the command.
        hostname: the container's own name, if one is given.
    """

    host: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    hostname: str | None = None


def size_bytes(text: str, where: str) -> int:
    """Return a size such as ``2g`` in bytes.

    Raises:
        InvalidError: something else; the message names *where*.
    """
    match = _SIZE.fullmatch(text)
    if match is None or int(match.group(1)) == 0:
        raise InvalidError(f"{where} is not a size such as '2g': '{text}'")
    return int(match.group(1)) * _UNITS[match.group(2).lower()]


def docker_options(resources: Mapping[str, Any]) -> DockerOptions:
    """Return the options of ``resources.dockerArgs`` and ``dockerArgsList`` of a job.

    Raises:
        NotSupportedError: an argument that is not carried out, 400 for one that Docker would not understand.
    """
    text, items = resources.get("dockerArgs"), resources.get("dockerArgsList")
    try:
        words = [*shlex.split(str(text or "")), *(str(item) for item in items or ())]
    except ValueError as error:
        raise InvalidError(f"resources.docker_args cannot be split into words ({error}): '{text}'") from error
    return _Reader(words).read()


class _Reader:
    """Reads words one after the other into the keywords of the engine."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._host: dict[str, Any] = {}
        self._environment: dict[str, str] = {}
        self._hostname: str | None = None

    def read(self) -> DockerOptions:
        known = self._known()
        while self._words:
            word = self._words.pop(0)
            name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            name = _SHORT.get(name, name)
            if name not in known:
                raise NotSupportedError(f"resources.docker_args: '{name}' (it has: {', '.join(sorted(known))})")
            if name == "--init" and not equals:
                value = "true"
            elif not equals:
                if not self._words:
                    raise InvalidError(f"resources.docker_args: '{name}' lacks its value")
                value = self._words.pop(0)
            known[name](name, value)
        return DockerOptions(host=self._host, environment=self._environment, hostname=self._hostname)

    def _known(self) -> dict[str, Callable[[str, str], None]]:
        return {
            "--cap-add": self._cap_add,
            "--cap-drop": lambda _name, value: self._list("cap_drop", value),
            "--cpus": self._cpus,
            "--env": self._env,
            "--gpus": self._all_gpus,
            "--hostname": self._name,
            "--init": self._init,
            "--ipc": self._ipc,
            "--memory": lambda name, value: self._set("mem_limit", size_bytes(value, self._where(name))),
            "--pids-limit": self._pids,
            "--shm-size": lambda name, value: self._set("shm_size", size_bytes(value, self._where(name))),
            "--ulimit": self._ulimit,
        }

    @staticmethod
    def _where(name: str) -> str:
        return f"resources.docker_args: '{name}'"

    def _set(self, key: str, value: Any) -> None:
        self._host[key] = value

    def _list(self, key: str, value: Any) -> None:
        self._host.setdefault(key, []).append(value)

    def _pids(self, name: str, value: str) -> None:
        number = whole(value)
        if number is None or not 1 <= number <= _MOST_PIDS:
            raise InvalidError(f"{self._where(name)} takes a whole number from 1 to {_MOST_PIDS}, not '{value}'")
        self._set("pids_limit", number)

    def _cap_add(self, name: str, value: str) -> None:
        capability = value.upper().removeprefix("CAP_")
        if capability not in CAPABILITIES:
            raise NotSupportedError(
                f"resources.docker_args: '{name} {value}' (it has: {', '.join(sorted(CAPABILITIES))})"
            )
        self._list("cap_add", capability)

    def _cpus(self, name: str, value: str) -> None:
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?|\.[0-9]{1,9}", value) or float(value) <= 0:
            raise InvalidError(f"{self._where(name)} takes a number of processors, not '{value}'")
        self._set("nano_cpus", int(float(value) * 1e9))

    def _env(self, name: str, value: str) -> None:
        variable, equals, text = value.partition("=")
        if not equals or not _VARIABLE.fullmatch(variable):
            # Without a value, docker takes that of its environment, which is not the user's here.
            raise InvalidError(f"{self._where(name)} takes NAME=VALUE, not '{variable}'")
        self._environment[variable] = text

    def _all_gpus(self, name: str, value: str) -> None:
        if value != "all":
            raise NotSupportedError(
                f"resources.docker_args: '{name} {value}' (a job has all of the machine's, or none)"
            )

    def _name(self, name: str, value: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", value):
            raise InvalidError(f"{self._where(name)}: '{value}' cannot be the name of a host")
        self._hostname = value

    def _init(self, name: str, value: str) -> None:
        if value != "true":
            raise NotSupportedError(f"resources.docker_args: '{name}={value}'")

    def _ipc(self, name: str, value: str) -> None:
        if value not in IPC_MODES:
            raise NotSupportedError(f"resources.docker_args: '{name} {value}' (it has: {', '.join(IPC_MODES)})")
        self._set("ipc_mode", value)

    def _ulimit(self, name: str, value: str) -> None:
        match = re.fullmatch(r"([a-z]+)=(-1|[0-9]{1,18})(?::(-1|[0-9]{1,18}))?", value)
        if match is None or match.group(1) not in ULIMITS:
            raise InvalidError(f"{self._where(name)} takes TYPE=SOFT[:HARD], not '{value}'")
        soft = int(match.group(2))
        hard = int(match.group(3)) if match.group(3) else soft
        self._list("ulimits", {"name": match.group(1), "soft": soft, "hard": hard})
