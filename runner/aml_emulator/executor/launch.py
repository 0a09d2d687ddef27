"""How the job's command is started: once, once per process, or by the image's mpirun. Pure.

A job with a distribution runs on one instance here. PyTorch's processes get their ranks as AzureML's launcher gives them:
https://learn.microsoft.com/azure/machine-learning/how-to-train-distributed-gpu.
"""

from __future__ import annotations

from typing import Literal

Launcher = Literal["once", "processes", "mpirun"]

_BEGIN = "exec 2>&1; "

ONCE = _BEGIN + '[ -x /bin/bash ] && exec /bin/bash -c "$0"; exec /bin/sh -c "$0"'
"""Runs its first argument by bash, as AzureML does, or by sh where an image has no bash.

Both outputs go through one pipe: the engine would not keep the order of two.
"""

_SHELL = "shell=/bin/sh; [ -x /bin/bash ] && shell=/bin/bash; "

PROCESSES = (
    _BEGIN
    + _SHELL
    + """
ends=$(mktemp -u) && mkfifo "$ends" && exec 3<>"$ends" && rm "$ends" || exit 126
end() { trap : TERM; kill -TERM 0; (sleep 4; echo late >&3) >/dev/null 2>&1 & }
trap end TERM
rank=0
while [ "$rank" -lt "$1" ]; do
  (trap : TERM; RANK=$rank LOCAL_RANK=$rank "$shell" -c "$0" 3>&-; echo "$?" >&3) &
  rank=$((rank + 1))
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
    + """
if ! command -v mpirun >/dev/null; then
  echo "The job's distribution is mpi, and its image has no mpirun: install Open MPI or MPICH in the image." >&2
  exit 127
fi
exec mpirun -n "$1" "$shell" -c "$0"
"""
)
"""Runs its first argument under the mpirun of the image."""

MPI_ENVIRONMENT = {
    # Jobs run as root, and on a machine that may have fewer processors than a job has processes.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""What Open MPI reads: https://docs.open-mpi.org/en/main/launching-apps/."""


def argv(command: str, launcher: Launcher, processes: int) -> tuple[str, ...]:
    """Return what the container runs for *command*, a line of shell in which nothing is left to fill in."""
    match launcher:
        case "once":
            return ("/bin/sh", "-c", ONCE, command)
        case "processes":
            return ("/bin/sh", "-c", PROCESSES, command, str(processes))
        case "mpirun":
            return ("/bin/sh", "-c", MPIRUN, command, str(processes))
