"""examples/distributed by aml-train, and what its processes have to know, whoever submitted it: two nodes, two processes on each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.emulator_process import ROOT, Emulator, python_of_v1

RANKS = (0, 1, 2, 3)
SECONDS = 3000
KILL = 'job.environmentVariables={KILL_RANK: "2"}'
EXAMPLE = ROOT / "examples" / "distributed"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How ``aml-train run`` ended: its exit code, what it told of the run, what each process wrote, and all that it said."""

    code: int
    facts: dict[str, Any]
    logs: dict[int, str]
    said: str


def aml_train(
    emulator: Emulator, folder: Path, kind: str, image: str, *, sdk: str = "v1", sets: tuple[str, ...] = ()
) -> Ran:
    """Run the example by its own configuration, but for the image, which is there already.

    Args:
        emulator: what runs it.
        folder: a new one, for a copy of the example.
        kind: ``mpi`` or ``torch``.
        image: what the job runs in.
        sdk: what submits it.
        sets: values of ``--set``.
    """
    shutil.copytree(EXAMPLE / kind, folder)
    configuration = yaml.safe_load((folder / "aml-train.yml").read_text())
    del configuration["image"]
    (folder / "aml-train.yml").write_text(yaml.safe_dump(configuration))
    events = folder.with_suffix(".jsonl")
    own = (f"sdk={sdk}", f"job.environment.docker.baseImage={image}", f"job.target={emulator.target()['compute']}")
    done = subprocess.run(
        [python_of_v1(), "-m", "aml_train", "run", "--target", "azure", "--events", str(events)]
        + [part for one in (*own, *sets) for part in ("--set", one)],
        cwd=folder,
        env=emulator.workspace_environment(HOME=str(folder.parent)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    told = [json.loads(line) for line in events.read_text().splitlines()]
    logs: dict[int, str] = dict.fromkeys(RANKS, "")
    for one in told:
        if one["event"] == "log-line" and (match := re.search(r"std_log_process_(\d)\.txt", one["origin"])):
            logs[int(match[1])] += one["text"] + "\n"
    (ended,) = [one["facts"] for one in told if one["event"] == "run-finished"]
    return Ran(code=done.returncode, facts=ended, logs=logs, said=done.stdout + done.stderr)


def rank_log(rank: int) -> str:
    """Return the name of a process's log."""
    return f"std_log_process_{rank}.txt"


def check_places(seen: Mapping[int, Mapping[str, str]]) -> str:
    """Check what AzureML tells every process of its node; return the first node's address.

    Args:
        seen: each process's variables.
    """
    first, second = seen[0]["AZ_BATCH_NODE_LIST"].split(";")
    assert re.fullmatch(r"[0-9.]+ [0-9.]+", f"{first} {second}")
    assert first != second
    for rank in RANKS:
        node = rank // 2
        wanted = {
            "AZUREML_NODE_COUNT": "2",
            "AZUREML_CR_NODE_RANK": str(node),
            "AZ_BATCHAI_TASK_INDEX": str(node),
            "AZ_BATCHAI_MPI_MASTER_NODE": first,
            "AZ_BATCH_MASTER_NODE": f"{first}:6000",
            "AZ_BATCH_NODE_LIST": f"{first};{second}",
            "AZ_BATCH_HOST_LIST": f"{first},{second}",
            "AZ_BATCH_IS_CURRENT_NODE_MASTER": "false" if node else "true",
        }
        assert {name: seen[rank].get(name) for name in wanted} == wanted, rank
    return first


def check_mpi(seen: Mapping[int, Mapping[str, str]]) -> None:
    """Check the variables of MPI's processes."""
    check_places(seen)
    for rank in RANKS:
        wanted = {"RANK": str(rank), "SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_SIZE": "2"}
        assert {name: seen[rank].get(f"OMPI_COMM_WORLD_{name}") for name in wanted} == wanted


def check_torch(seen: Mapping[int, Mapping[str, str]]) -> None:
    """Check the variables of PyTorch's processes."""
    first = check_places(seen)
    for rank in RANKS:
        wanted = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % 2),
            "NODE_RANK": str(rank // 2),
            "WORLD_SIZE": "4",
            "MASTER_ADDR": first,
            "MASTER_PORT": "6105",
        }
        assert {name: seen[rank].get(name) for name in wanted} == wanted


def told(text: str) -> dict[str, str]:
    """Return the variables that a process of the example told in its log."""
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z_]+=", line))


def check_example(seen: Mapping[str, Any], kind: str, last: str) -> None:
    """Check the example's job that ends well, and those in which one process fails, or is killed.

    Args:
        seen: how each ended, as distributed_steps.py tells it.
        kind: ``mpi`` or ``torch``.
        last: how the first process's log ends.
    """
    files = seen["well"]["files"]
    assert seen["well"]["status"] == "Completed", seen["well"]
    logs = {rank: files[rank_log(rank)] for rank in RANKS}
    for rank, log in logs.items():
        assert log.startswith(f"rank {rank} of 4 on node-{rank // 2}, rank {rank % 2} there\n")
    assert logs[0].endswith(f"{last}\n")
    check = {"mpi": check_mpi, "torch": check_torch}[kind]
    check({rank: told(log) for rank, log in logs.items()})

    killed = seen["killed"]
    assert killed["status"] == "Failed"
    assert "Rank 2 of the job's command, on node 1, exited with status code 137." in killed["error"]
    assert "It was killed (SIGKILL)." in killed["error"]
    if "failing" in seen:
        # Which process ends first is not known: MPI aborts the others, and those of PyTorch miss this one.
        assert seen["failing"]["status"] == "Failed"
        assert "exited with status code " in seen["failing"]["error"]
        assert "rank 3 fails, as FAIL_ON_RANK says" in seen["failing"]["files"][rank_log(3)]


def check_killed(ran: Ran) -> None:
    """Check that a process that is killed fails the job, with its exit code."""
    assert (ran.code, ran.facts["ending"]) == (5, "out-of-memory"), ran.said
    assert "Rank 2 of the job's command, on node 1, exited with status code 137." in ran.said
