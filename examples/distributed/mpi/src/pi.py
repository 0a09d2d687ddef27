"""Compute pi on all processes, each a part of the sum; the first prints it."""

import os
import signal
import socket
from pathlib import Path

from mpi4py import MPI

STEPS = 1_000_000
PLACE = ("OMPI_COMM_WORLD_", "AZ_BATCH", "AZUREML_NODE", "AZUREML_CR")

world = MPI.COMM_WORLD
print(
    f"rank {world.rank} of {world.size} on {socket.gethostname()}, rank {os.environ['OMPI_COMM_WORLD_LOCAL_RANK']} there"
)
for name in sorted(os.environ):
    if name.startswith(PLACE):
        print(f"{name}={os.environ[name]}", flush=True)
if os.environ.get("FAIL_ON_RANK") == str(world.rank):
    raise SystemExit(f"rank {world.rank} fails, as FAIL_ON_RANK says")
if "KILL_RANK" in os.environ:
    # As if a machine were lost in a long step: only AzureML ends the others.
    if os.environ["KILL_RANK"] == str(world.rank):
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
part = sum(4.0 / (1.0 + ((step + 0.5) / STEPS) ** 2) for step in range(world.rank, STEPS, world.size)) / STEPS
pi = world.allreduce(part)
if world.rank == 0:
    print(f"pi is {pi:.10f}")
    Path("outputs", "pi.txt").write_text(f"{pi:.10f}\n")
