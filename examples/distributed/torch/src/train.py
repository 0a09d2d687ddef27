"""Train a line with DistributedDataParallel over gloo, without GPUs."""

import os
import signal
import socket

import torch
import torch.distributed as dist

SLOPE, OFFSET = 3.0, -1.0
PLACE = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_", "AZ_BATCH", "AZUREML_NODE", "AZUREML_CR")

# RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set by AzureML.
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {size} on {socket.gethostname()}, rank {os.environ['LOCAL_RANK']} there")
for name in sorted(os.environ):
    if name.startswith(PLACE):
        print(f"{name}={os.environ[name]}", flush=True)
if os.environ.get("FAIL_ON_RANK") == str(rank):
    raise SystemExit(f"rank {rank} fails, as FAIL_ON_RANK says")
if "KILL_RANK" in os.environ:
    # As if a machine were lost in a long step: only AzureML ends the others.
    if os.environ["KILL_RANK"] == str(rank):
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()

torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(200):
    x = torch.randn(64, 1)
    loss = torch.nn.functional.mse_loss(model(x), SLOPE * x + OFFSET)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

slope, offset = model.module.weight.item(), model.module.bias.item()
print(f"slope {slope:.3f} offset {offset:.3f}")
if rank == 0:
    torch.save(model.module.state_dict(), "outputs/model.pt")
dist.destroy_process_group()
