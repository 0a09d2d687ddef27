"""The action's image against one that simply pip-installs the SDKs.

Usage: ``python -m benchmarks.action_image [--rounds N]``.

The baseline has the same base, and azure-ai-ml, azureml-core, azure-identity and docker as pip chooses them; it is built in the same
run, and says its first line when it has imported the four. The action validates examples/digits. Goals: at most 80 MB of
compressed layers above the base, and the first line at most 0.3 s later than that of the base alone, whose start is the engine's.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from aml_train.core.docker import BuildCli, buildkit_cli
from benchmarks.measuring import ROOT, first_lines_in_turns, make_row, print_table

_BASE: Final = "python:3.11-slim-bookworm"
_ACTION: Final = "aml-train-action:bench"
_BASELINE: Final = "aml-train-baseline:bench"
_DOCKERFILE: Final = f"""\
FROM {_BASE}
RUN pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore azure-ai-ml azureml-core azure-identity docker
"""
_IMPORTS: Final = "import azure.ai.ml, azureml.core, azure.identity, docker; print('ready')"
_MOST_BYTES: Final = 80_000_000
_MOST_SECONDS: Final = 0.3
#: The level that the Docker engine compresses layers with when it pushes them.
_GZIP: Final = 6
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_CHUNK: Final = 1 << 20


def _build(cli: BuildCli, tag: str, context: str, dockerfile: str | None = None) -> None:
    """Build as GitHub's runner does: plain ``docker build``, even without buildx."""
    environment = {**cli.environ, "DOCKER_BUILDKIT": "1" if cli.buildx else "0"}
    argv = [cli.path, "build", "--quiet", "--tag", tag, context]
    done = subprocess.run(argv, input=dockerfile, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{tag} cannot be built:\n{done.stdout}{done.stderr}")


def _compressed_layers(image: str) -> list[int]:
    """Return each layer's compressed size in bytes, the base's first.

    That is the size that the engine would send to a registry.
    """
    with tempfile.TemporaryFile() as file:
        subprocess.run(["docker", "save", image], stdout=file, check=True)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            manifest = json.load(_member(archive, "manifest.json"))
            return [_compressed(_member(archive, name)) for name in manifest[0]["Layers"]]


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        raise SystemExit(f"docker save wrote no file {name}")
    return found


def _compressed(layer: IO[bytes]) -> int:
    """Return the compressed size of *layer*; a compressed one counts as it is."""
    start = layer.read(2)
    layer.seek(0)
    if start == b"\x1f\x8b":
        return layer.seek(0, io.SEEK_END)
    packer = zlib.compressobj(_GZIP, wbits=_GZIP_FORMAT)
    size = 0
    while chunk := layer.read(_CHUNK):
        size += len(packer.compress(chunk))
    return size + len(packer.flush())


def _print_sizes(base: list[int], sizes: Mapping[str, list[int]]) -> None:
    above = {name: sum(layers[len(base) :]) for name, layers in sizes.items()}
    (_, reference), (_, ours) = above.items()
    print(f"\nCompressed layers above {_BASE} ({sum(base) / 1e6:.1f} MB)")
    width = max(map(len, above))
    for name, size in above.items():
        print(f"  {name:<{width}}  {size / 1e6:8.1f} MB  {size / reference:8.2f} x", end="")
        verdict = "met" if ours <= _MOST_BYTES else "MISSED"
        print(f"   goal at most {_MOST_BYTES / 1e6:.0f} MB   {verdict}" if size == ours else "")


def main() -> None:
    """Build both, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="starts of each image  [default: 9]")
    rounds = parser.parse_args().rounds
    cli = buildkit_cli(os.environ)
    print("Building both images …", flush=True)
    _build(cli, _BASELINE, "-", _DOCKERFILE)
    _build(cli, _ACTION, str(ROOT))

    baseline, action, bare = "pip install of the four SDKs", "the action", "the base alone"
    base = _compressed_layers(_BASE)
    _print_sizes(base, {baseline: _compressed_layers(_BASELINE), action: _compressed_layers(_ACTION)})

    project = Path(ROOT, "examples", "digits")
    step = ("--env=INPUT_COMMAND=validate", "--env=GITHUB_ACTIONS=true", "--env=GITHUB_WORKSPACE=/github/workspace")
    mounted = (f"--volume={project}:/github/workspace:ro", "--workdir=/github/workspace")
    run = ("docker", "run", "--rm")
    times = first_lines_in_turns(
        {
            bare: (*run, _BASE, "echo", "ready"),
            baseline: (*run, _BASELINE, "python", "-c", _IMPORTS),
            action: (*run, *step, *mounted, _ACTION),
        },
        rounds=rounds,
    )
    ours = make_row(action, times[action], baseline=statistics.median(times[bare]), more=_MOST_SECONDS)
    reference = make_row(baseline, times[baseline])
    rows = (reference, make_row(bare, times[bare]), ours)
    print_table(f"From docker run to the first line: medians of {rounds} starts in turns", rows, baseline=reference)


if __name__ == "__main__":
    main()
