"""The arguments of ``docker run`` that a job may use."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.api.errors import service_error
from aml_emulator.domain.errors import DomainError
from aml_emulator.domain.jobs.docker_args import docker_options


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("", {}),
        ("--shm-size 1g --shm-size=2g", {"shm_size": 2 * 1024**3}),
        ("--ulimit memlock=-1", {"ulimits": [{"name": "memlock", "soft": -1, "hard": -1}]}),
        ("--ulimit nofile=1024:2048", {"ulimits": [{"name": "nofile", "soft": 1024, "hard": 2048}]}),
        ("--cap-add SYS_PTRACE --cap-add=cap_ipc_lock", {"cap_add": ["SYS_PTRACE", "IPC_LOCK"]}),
        ("--cap-drop ALL", {"cap_drop": ["ALL"]}),
        ("--ipc=private", {"ipc_mode": "private"}),
        ("-m 512m --cpus 1.5", {"mem_limit": 512 * 1024**2, "nano_cpus": 1_500_000_000}),
        ("--pids-limit 100", {"pids_limit": 100}),
        ("--init --gpus all", {}),
    ],
)
def test_what_a_container_may_have_is_carried_out(text: str, host: dict[str, Any]) -> None:
    assert dict(docker_options({"dockerArgs": text}).host) == host


def test_variables_and_the_name_of_the_host_are_taken_and_lists_are_not_split() -> None:
    options = docker_options({"dockerArgs": "-e 'A=one two' -h node0", "dockerArgsList": ["--env", "B=three four"]})
    assert dict(options.environment) == {"A": "one two", "B": "three four"}
    assert options.hostname == "node0"


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("--privileged", 501, "'--privileged'"),
        ("-v /:/host", 501, "'-v'"),
        ("--volume=/:/host", 501, "'--volume'"),
        ("--mount type=bind", 501, "'--mount'"),
        ("--network host", 501, "'--network'"),
        ("--pid=host", 501, "'--pid'"),
        ("--device /dev/fuse", 501, "'--device'"),
        ("--security-opt seccomp=unconfined", 501, "'--security-opt'"),
        ("--user 1000", 501, "'--user'"),
        ("image", 501, "'image'"),
        ("--cap-add SYS_ADMIN", 501, "'--cap-add SYS_ADMIN'"),
        ("--cap-add ALL", 501, "'--cap-add ALL'"),
        *((f"--ipc {mode}", 501, f"'--ipc {mode}'") for mode in ("host", "container:x", "HOST")),
        *(
            (f"{name}=host", 501, f"'{name}'")
            for name in (
                "--uts",
                "--userns",
                "--cgroupns",
                "--cgroup-parent",
                "--volumes-from",
                "--runtime",
                "--link",
            )
        ),
        ("--gpus 1", 501, "'--gpus 1'"),
        ("--shm-size lots", 400, "'--shm-size' is not a size"),
        ("--shm-size", 400, "'--shm-size' lacks its value"),
        ("--ulimit memlock", 400, "TYPE=SOFT"),
        ("--ulimit other=1", 400, "TYPE=SOFT"),
        ("--cpus many", 400, "number of processors"),
        ("--env SECRET", 400, "NAME=VALUE"),
        ("--hostname a/b", 400, "name of a host"),
        ("--pids-limit 0", 400, "from 1 to"),
        (f"--pids-limit {'9' * 5000}", 400, "from 1 to"),
        (f"--memory {'9' * 5000}g", 400, "not a size"),
        (f"--cpus {'9' * 400}", 400, "number of processors"),
        (f"--ulimit memlock={'9' * 5000}", 400, "TYPE=SOFT"),
        ("--env 'A=1", 400, "split into words"),
    ],
)
def test_what_reaches_out_of_the_container_is_refused_by_name(text: str, status: int, message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        docker_options({"dockerArgs": text})
    assert service_error(caught.value).status == status
