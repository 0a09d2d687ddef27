"""The nodes and processes of a distributed job: names, logs, variables. Pure.

AzureML's variables: https://learn.microsoft.com/azure/machine-learning/how-to-train-distributed-gpu (also with
``?view=azureml-api-1`` for MPI), and https://learn.microsoft.com/azure/batch/batch-compute-node-environment-variables for
``AZ_BATCH_*``. ``AZUREML_NODE_COUNT``, ``AZUREML_CR_NODE_RANK`` and ``AZ_BATCHAI_*`` are undocumented; training scripts read them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aml_emulator.executor import archive, launch
from aml_emulator.executor.archive import Entry
from aml_emulator.executor.spec import LOG_PATH, RunSpec

MPI_LOG_PATH = "user_logs/mpi_log.txt"
"""The log of mpirun's own messages."""

MASTER_PORT = 6105
BATCH_PORT = 6000
TENSORFLOW_PORT = 2222

Role = Literal["worker", "ps"]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a distributed job.

    Attributes:
        rank: its number among all.
        node: the number of its node.
        index: its number on the node.
        role: TensorFlow's task type; ``worker`` for all others.
        task: its number among those of its role.
        log: where its output is kept, within the run's artefacts.
    """

    rank: int
    node: int
    index: int
    role: Role
    task: int
    log: str


def node_name(node: int) -> str:
    """Return a node's name on the job's network, which is its host name as well."""
    return f"node-{node}"


def processes(spec: RunSpec) -> tuple[Process, ...]:
    """Return the processes of a distributed job by rank; none for any other.

    Workers of TensorFlow are spread over the nodes one by one, and then its parameter servers.
    """
    if spec.launcher == "once":
        return ()
    if spec.launcher != "tensorflow":
        total = spec.nodes * spec.processes
        places = [divmod(rank, spec.processes) for rank in range(total)]
        return tuple(
            Process(rank=rank, node=node, index=index, role="worker", task=rank, log=_log(rank, total))
            for rank, (node, index) in enumerate(places)
        )
    roles: list[tuple[Role, int, int]] = [("worker", task, spec.workers) for task in range(spec.workers)]
    roles += [("ps", task, spec.servers) for task in range(spec.servers)]
    used = [0] * spec.nodes
    found = []
    for rank, (role, task, total) in enumerate(roles):
        node = rank % spec.nodes
        log = _log(task, total, "_ps" if role == "ps" else "")
        found.append(Process(rank=rank, node=node, index=used[node], role=role, task=task, log=log))
        used[node] += 1
    return tuple(found)


def _log(number: int, total: int, suffix: str = "") -> str:
    """Return a process's log, numbered with leading zeros as AzureML does.

    azure-ai-ml shows ``user_logs/std_log[\\D]*[0]*(?:_ps)?\\.txt`` (azure.ai.ml.constants.JobLogPattern).
    """
    return f"user_logs/std_log_process_{number:0{len(str(total - 1))}d}{suffix}.txt"


def log_paths(spec: RunSpec) -> tuple[str, ...]:
    """Return the logs that a run has from its start; the first marks its begin."""
    return tuple(one.log for one in processes(spec)) or (LOG_PATH,)


def argv(spec: RunSpec, command: str, node: int) -> tuple[str, ...]:
    """Return the command of a node's container; *command* is complete."""
    if spec.launcher == "once":
        return launch.argv_once(command)
    if spec.launcher != "mpi":
        return launch.argv_processes(command, sum(one.node == node for one in processes(spec)))
    names = tuple(node_name(each) for each in range(spec.nodes))
    return (
        launch.argv_mpirun(command, nodes=names, per_node=spec.processes)
        if node == 0
        else launch.argv_listen(names[node])
    )


def first_files(spec: RunSpec, node: int) -> tuple[Entry, ...]:
    """Return a node's files before its start: empty outputs, and MPI's programs."""
    if spec.launcher == "once":
        return ()
    outputs = [archive.file_entry(launch.output_path(one.rank), b"") for one in processes(spec) if one.node == node]
    if spec.launcher == "mpi":
        outputs.append(archive.file_entry(launch.AGENT, launch.AGENT_SCRIPT.encode(), mode=0o755))
        outputs.append(archive.file_entry(launch.RANK, launch.RANK_SCRIPT.encode(), mode=0o755))
    return (archive.folder_entry(launch.FOLDER), *outputs)


def go_files(spec: RunSpec, node: int, addresses: Sequence[str], direct: str) -> tuple[Entry, ...]:
    """Return what lets a node begin, once all of them are started.

    Args:
        addresses: IP addresses of all nodes.
        direct: the node's NO_PROXY so far.
    """
    direct = ",".join((direct, *addresses))
    settings = node_variables(spec, node, addresses) | {"NO_PROXY": direct, "no_proxy": direct}
    own = [one for one in processes(spec) if one.node == node]
    files = [archive.file_entry(launch.SETTINGS, _exports(settings))]
    for one in own:
        variables = {**process_variables(spec, one, addresses), "AML_PROCESS": str(one.rank)}
        files.append(archive.file_entry(launch.process_path(one.index), _exports(variables)))
    return (*files, archive.file_entry(launch.GO, b""))


def node_variables(spec: RunSpec, node: int, addresses: Sequence[str]) -> dict[str, str]:
    """Return the variables of every process of a node."""
    several = len(addresses) > 1
    found = {
        "AZUREML_NODE_COUNT": str(spec.nodes),
        "AZUREML_CR_NODE_RANK": str(node),
        "AZ_BATCHAI_TASK_INDEX": str(node),
        "AZ_BATCHAI_MPI_MASTER_NODE": addresses[0],
        "AZ_BATCH_NODE_LIST": ";".join(addresses),
        "AZ_BATCH_HOST_LIST": ",".join(addresses),
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": "true" if node == 0 else "false",
    }
    if several:
        # Scripts take a job for one on several nodes where this variable is there.
        found["AZ_BATCH_MASTER_NODE"] = f"{addresses[0]}:{BATCH_PORT}"
    if spec.launcher == "mpi":
        # The user's own settings for Open MPI hold, but for how nodes are reached.
        given = set(spec.environment_variables) - launch.AGENT_VARIABLES
        found |= {name: value for name, value in launch.MPI_ENVIRONMENT.items() if name not in given}
    return found


def process_variables(spec: RunSpec, process: Process, addresses: Sequence[str]) -> dict[str, str]:
    """Return the variables of one process beyond its node's; MPI sets its own."""
    if spec.launcher == "pytorch":
        return {
            "RANK": str(process.rank),
            "LOCAL_RANK": str(process.index),
            "NODE_RANK": str(process.node),
            "WORLD_SIZE": str(spec.nodes * spec.processes),
            "MASTER_ADDR": addresses[0],
            "MASTER_PORT": str(MASTER_PORT),
        }
    if spec.launcher == "tensorflow":
        cluster: dict[str, list[str]] = {"worker": []}
        for one in processes(spec):
            place = f"{addresses[one.node]}:{TENSORFLOW_PORT + one.index}"
            cluster.setdefault(one.role, []).append(place)
        task = {"type": process.role, "index": process.task}
        return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}
    return {}


def reserved(spec: RunSpec) -> frozenset[str]:
    """Return the variables that a distributed job's own ones give way to."""
    addresses = ["127.0.0.1"] * spec.nodes
    found = {*node_variables(spec, 0, addresses)} if spec.launcher != "once" else set()
    for one in processes(spec)[:1]:
        found |= set(process_variables(spec, one, addresses))
    return frozenset(found)


def _exports(variables: Mapping[str, str]) -> bytes:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()).encode()
