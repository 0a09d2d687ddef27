"""One step on every GPU of every node, to see that NCCL talks over InfiniBand.

NVIDIA's own script (DeepLearningExamples/PyTorch/Segmentation/MaskRCNN) takes this file's place; the image is the same.
"""

import argparse
import os

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    epochs = parser.parse_args().epochs
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    for epoch in range(epochs):
        value = torch.full((64 << 20,), float(dist.get_rank()), device=device)
        dist.all_reduce(value)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: the ranks add up to {value[0].item():g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
