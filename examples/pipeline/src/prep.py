"""Split the images into a part to train on and a part to evaluate with."""

from __future__ import annotations

import argparse
from pathlib import Path

from steps.split import read_images, split_images, write_split


def main() -> None:
    """Read, split and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--split", type=Path, required=True)
    parser.add_argument("--test-share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    split = split_images(*read_images(arguments.images), test_share=arguments.test_share, seed=arguments.seed)
    write_split(arguments.split, split)
    print(f"{len(split.train_labels)} images to train on, {len(split.test_labels)} to evaluate with", flush=True)


if __name__ == "__main__":
    main()
