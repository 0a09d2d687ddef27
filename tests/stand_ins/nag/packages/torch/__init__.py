"""What the training scripts ask of PyTorch, without GPUs: processes that find each other as its own do."""

import os
import socket
import time
import types

from torch import hub

float32 = "float32"
device = str
cuda = types.SimpleNamespace(set_device=lambda rank: print("device", rank, flush=True), empty_cache=lambda: None)
nn = types.SimpleNamespace(
    parallel=types.SimpleNamespace(DistributedDataParallel=lambda model, **_: types.SimpleNamespace(module=model))
)
_peers = []


def _init_process_group(backend, init_method):
    """Connect all processes with the first one, by the variables of https://pytorch.org/docs/stable/distributed.html."""
    assert (backend, init_method) == ("nccl", "env://")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(("", address[1])) as server:
            _peers.extend(server.accept()[0] for _ in range(size - 1))
        return
    ends = time.monotonic() + 300
    while True:
        try:
            _peers.append(socket.create_connection(address, timeout=300))
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)
        else:
            return


def barrier():
    """Return when every process has come here."""
    if int(os.environ["RANK"]) == 0:
        assert all(peer.recv(1) == b"." for peer in _peers)
        for peer in _peers:
            peer.sendall(b"!")
    else:
        _peers[0].sendall(b".")
        assert _peers[0].recv(1) == b"!"


distributed = types.SimpleNamespace(init_process_group=_init_process_group, barrier=barrier)
__all__ = ["cuda", "device", "distributed", "float32", "hub", "nn"]
