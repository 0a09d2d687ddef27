"""The start of a job's command: once, per process of a node, or by mpirun. Pure.

A distributed job has a container for each node. Its main process waits until every node is there and the emulator has sent
it their addresses (``GO``), and then starts its processes. Each process writes into a separate file, and leaves its
exit status and the machine's uptime at its end, so that the first one to fail is known.
"""

from __future__ import annotations

from typing import Final, Literal

Launcher = Literal["once", "pytorch", "tensorflow", "mpi"]

FOLDER: Final = "/mnt/azureml/cr/node"
"""The folder of a node's container for the files of its processes."""

GO: Final = f"{FOLDER}/go"
"""Put there when every node is started; the addresses are known by then."""

SETTINGS: Final = f"{FOLDER}/settings"
"""Variables of all processes of the node, in the shell's language."""

AGENT: Final = f"{FOLDER}/agent"
RANK: Final = f"{FOLDER}/rank"

MEETING: Final = "/mnt/azureml/cr/shared"
"""A volume that the nodes of an MPI job share; each listens at a named pipe there that is called like it."""


def process_path(index: int) -> str:
    """Return the file with the variables of a node's process, by index from 0."""
    return f"{FOLDER}/process-{index}"


ENDS: Final = f"{FOLDER}/ends"
"""A file with a line for each ended process: rank, exit status, uptime in seconds."""


def output_path(rank: int) -> str:
    """Return the file that a process writes its output to."""
    return f"{FOLDER}/output-{rank}"


PYTHON_FOLDER: Final = "/mnt/azureml/cr/python"
"""The folder of what every Python of a job loads when it starts; see :mod:`aml_emulator.executor.run_flush`."""

_BEGIN = "exec 2>&1; "

PATH_LINE: Final = (
    f'import sys; sys.path.insert(0, "{PYTHON_FOLDER}"); import aml_run_flush; sys.path.remove("{PYTHON_FOLDER}")'
)
"""A line of a ``.pth`` file, which Python executes when it starts: https://docs.python.org/3/library/site.html."""

_PYTHON = f"""
export PYTHONPATH="{PYTHON_FOLDER}${{PYTHONPATH:+:$PYTHONPATH}}"
for aml_python in python python3; do
  aml_prefix=$(command -v "$aml_python") || continue
  aml_prefix=${{aml_prefix%/bin/*}}
  for aml_site in "$aml_prefix"/lib/python3*/*-packages "$aml_prefix"/local/lib/python3*/dist-packages; do
    [ ! -d "$aml_site/azureml/core" ] || [ ! -w "$aml_site" ] || echo '{PATH_LINE}' >"$aml_site/aml-run-flush.pth"
  done
done
unset aml_python aml_prefix aml_site
"""
# PYTHONPATH is set here, and not among the container's variables, so that the image's own stays. A command that begins with another
# PYTHONPATH is reached by a .pth file, in each Python of the PATH that has azureml-core.

ONCE = _BEGIN + _PYTHON + '[ -x /bin/bash ] && exec /bin/bash -c "$0"; exec /bin/sh -c "$0"'
"""Runs its first argument by bash, as AzureML does, or by sh where an image has no bash.

Both outputs go through one pipe: the engine would not keep the order of two.
"""

_SHELL = "shell=/bin/sh; [ -x /bin/bash ] && shell=/bin/bash; "

_WAIT = f"""
until [ -e {GO} ]; do sleep 0.05 2>/dev/null || sleep 1; done
. {SETTINGS}
"""

_RUN = f"""
aml_run() {{
  "$shell" -c "$2" >>"{FOLDER}/output-$1" 2>&1 3>&-
  aml_code=$?
  read -r aml_uptime aml_idle </proc/uptime
  printf '%s %s %s\\n' "$1" "$aml_code" "$aml_uptime" >>"{ENDS}"
  return "$aml_code"
}}
"""

PROCESSES = (
    _BEGIN
    + _SHELL
    + _PYTHON
    + _WAIT
    + _RUN
    + f"""
ends=$(mktemp -u) && mkfifo "$ends" && exec 3<>"$ends" && rm "$ends" || exit 126
end() {{ trap : TERM; kill -TERM 0; (sleep 4; echo late >&3) >/dev/null 2>&1 & }}
trap end TERM
index=0
while [ "$index" -lt "$1" ]; do
  (trap : TERM; . "{FOLDER}/process-$index"; aml_run "$AML_PROCESS" "$0"; echo "$?" >&3) &
  index=$((index + 1))
done
ended=0 code=0
while [ "$ended" -lt "$1" ]; do
  read -r status <&3 || continue
  [ "$status" != late ] || exit "$code"
  ended=$((ended + 1))
  if [ "$status" -ne 0 ] && [ "$code" -eq 0 ]; then code=$status; end; fi
done
exit "$code"
"""
)
"""Runs its first argument as many times at once as the second says, and ends with the first failure's status.

The others then get SIGTERM, by their process group, and go with the container when they do not heed it.
"""

MPIRUN = (
    _BEGIN
    + _SHELL
    + _WAIT
    + f"""
if ! command -v mpirun >/dev/null; then
  echo "The job's distribution is mpi, and its image has no mpirun: install Open MPI or MPICH in the image." >&2
  exit 127
fi
if [ "$2" != "" ]; then
  case "$(mpirun --version 2>&1)" in
    *"Open MPI"*|*OpenRTE*|*PRRTE*|*prterun*) ;;
    *) echo "The job runs on several nodes, for which the local AzureML needs Open MPI's mpirun; this one says:" >&2
      mpirun --version >&2
      exit 127 ;;
  esac
  exec mpirun -n "$1" --host "$2" --map-by "ppr:$3:node" /bin/sh {RANK} "$0"
fi
exec mpirun -n "$1" /bin/sh {RANK} "$0"
"""
)
"""Runs its first argument under the mpirun of the image, the second's number of times, on the nodes of the third."""

LISTEN = (
    _BEGIN
    + _SHELL
    + f"""
trap 'exit 143' TERM
mkfifo "{MEETING}/$1" || exit 126
"""
    + _WAIT
    + f"""
cat "{MEETING}/$1" >"{FOLDER}/daemon" & wait "$!" || exit 126
"$shell" "{FOLDER}/daemon" & wait "$!"
"""
)
"""Runs what mpirun wants to be run on this node: its daemon, which starts the node's processes.

It comes by a named pipe, so that no image needs an ssh server: https://docs.open-mpi.org/en/main/launching-apps/ssh.html.
"""

AGENT_SCRIPT = f"""#!/bin/sh
# Called by mpirun in the place of ssh: HOST COMMAND...
host=$1
shift
line="$*"
# The daemon stays in the foreground: its node ends when it does.
while case $line in *" --daemonize"*) ;; *) false ;; esac; do
  line="${{line%%" --daemonize"*}}${{line#*" --daemonize"}}"
done
until [ -p "{MEETING}/$host" ]; do sleep 0.05 2>/dev/null || sleep 1; done
printf '%s\\n' "$line" >"{MEETING}/$host"
"""

RANK_SCRIPT = (
    _SHELL
    + _PYTHON
    + _RUN
    + """
aml_run "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-0}}}" "$1"
"""
)
"""The command that mpirun starts for each process."""

MPI_ENVIRONMENT = {
    # Jobs run as root, and on a machine that may have fewer processors than a job has processes.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    # Reading another process's memory is not allowed in a container.
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_plm_rsh_agent": AGENT,
    "PRTE_MCA_plm_ssh_agent": AGENT,
}
"""Open MPI's variables: https://docs.open-mpi.org/en/main/launching-apps/."""

AGENT_VARIABLES = frozenset(name for name, value in MPI_ENVIRONMENT.items() if value == AGENT)


def argv_once(command: str) -> tuple[str, ...]:
    """Return the container's command for *command*, a complete line of shell."""
    return ("/bin/sh", "-c", ONCE, command)


def argv_processes(command: str, count: int) -> tuple[str, ...]:
    """Return what a node runs that starts *count* processes itself."""
    return ("/bin/sh", "-c", PROCESSES, command, str(count))


def argv_mpirun(command: str, *, nodes: tuple[str, ...], per_node: int) -> tuple[str, ...]:
    """Return what the first node of an MPI job runs."""
    hosts = ",".join(f"{node}:{per_node}" for node in nodes) if len(nodes) > 1 else ""
    return ("/bin/sh", "-c", MPIRUN, command, str(per_node * len(nodes)), hosts, str(per_node))


def argv_listen(node: str) -> tuple[str, ...]:
    """Return what every other node of an MPI job runs."""
    return ("/bin/sh", "-c", LISTEN, "listen", node)
