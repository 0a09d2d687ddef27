"""Compute pi on all processes together, each a part of the sum; the first one says the result."""

import os
import socket
from pathlib import Path

from mpi4py import MPI

STEPS = 1_000_000

world = MPI.COMM_WORLD
print(
    f"rank {world.rank} of {world.size} on {socket.gethostname()}, rank {os.environ['OMPI_COMM_WORLD_LOCAL_RANK']} there"
)
if os.environ.get("FAIL_ON_RANK") == str(world.rank):
    raise SystemExit(f"rank {world.rank} fails, as FAIL_ON_RANK says")
part = sum(4.0 / (1.0 + ((step + 0.5) / STEPS) ** 2) for step in range(world.rank, STEPS, world.size)) / STEPS
pi = world.allreduce(part)
if world.rank == 0:
    print(f"pi is {pi:.10f}")
    Path("outputs", "pi.txt").write_text(f"{pi:.10f}\n")
