"""The local AzureML's image of these sources."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.core.docker import buildkit_cli
from scripts.bootstrap.sources import SOURCE_LABEL, emulator_reference, emulator_source, project_version

if TYPE_CHECKING:
    from docker import DockerClient

_ROOT: Final = Path(__file__).parents[2]
_BUILT: Final = "aml-emulator-test:1"


def emulator_image(engine: DockerClient) -> str:
    """Return the image: as it was bootstrapped, or built here."""
    source = emulator_source(_ROOT)
    for reference in (emulator_reference(_ROOT), _BUILT):
        for found in engine.images.list(name=reference):
            if found.labels.get(SOURCE_LABEL) == source:
                return reference
    cli = buildkit_cli(os.environ)
    argv = [cli.path, *(["buildx", "build", "--load"] if cli.buildx else ["build"])]
    argv += [f"--tag={_BUILT}", f"--label={SOURCE_LABEL}={source}"]
    argv += [f"--build-arg=VERSION={project_version(_ROOT)}", "--file=runner/aml_emulator/Dockerfile", "."]
    subprocess.run(argv, cwd=_ROOT, env=dict(cli.environ), check=True)
    return _BUILT
