"""The Dockerfile of an environment that is a conda file over an image, as AzureML makes one. Pure.

The environment lies in ``/azureml-envs`` and leads the path; see
https://learn.microsoft.com/azure/machine-learning/how-to-manage-environments-v2#create-an-environment-from-a-conda-specification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

TOOLS: Final = ("conda", "mamba", "micromamba")
"""What can make an environment, in the order of choice."""

_FOLDERS: Final = (
    "/opt/miniconda/bin",
    "/opt/conda/bin",
    "/opt/miniconda3/bin",
    "/opt/miniforge3/bin",
    "/root/miniconda3/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
)
_SETUP: Final = "/azureml-environment-setup"

DEPENDENCIES: Final = "conda_dependencies.yml"
MICROMAMBA: Final = "micromamba"


def tool_paths(path_variable: str) -> tuple[str, ...]:
    """Return where a tool may lie in an image whose PATH is *path_variable*, in the order of choice."""
    folders = dict.fromkeys((*filter(lambda one: one.startswith("/"), path_variable.split(":")), *_FOLDERS))
    return tuple(f"{folder.rstrip('/')}/{tool}" for tool in TOOLS for folder in folders)


def prefix_of(conda_file: str) -> str:
    """Return the folder of the environment that *conda_file* describes."""
    digest = hashlib.md5(conda_file.encode(), usedforsecurity=False).hexdigest()
    return f"/azureml-envs/azureml_{digest}"


def build_files(
    base: str, conda_file: str, *, tool: str | None, micromamba: bytes | None = None
) -> Mapping[str, bytes]:
    """Return the build context's files.

    Args:
        base: the image, as the engine knows it.
        conda_file: the conda file's text.
        tool: the path in *base* of what makes the environment; None where *micromamba* does.
        micromamba: its program, for an image that has no tool.
    """
    if (tool is None) == (micromamba is None):
        raise ValueError("an environment is made by the image's tool or by micromamba")
    files = {DEPENDENCIES: conda_file.encode()}
    if micromamba is not None:
        files[MICROMAMBA] = micromamba
    files["Dockerfile"] = _dockerfile(base, prefix_of(conda_file), tool).encode()
    return files


def _dockerfile(base: str, prefix: str, tool: str | None) -> str:
    program = tool or f"{_SETUP}/{MICROMAMBA}"
    file = f"{_SETUP}/{DEPENDENCIES}"
    if program.rpartition("/")[2] == "micromamba":
        make = f"{program} create --yes --prefix {prefix} --file {file}"
    else:
        make = f"CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true {program} env create --prefix {prefix} --file {file}"
    lines = [
        f"FROM {base} AS conda",
        "USER root",
        "WORKDIR /",
        f"COPY {DEPENDENCIES}{'' if tool else f' {MICROMAMBA}'} {_SETUP}/",
        f"RUN {make}",
        f"FROM {base}",
        "USER root",
        f"COPY --from=conda {prefix} {prefix}",
        f'ENV PATH="{prefix}/bin:$PATH" \\',
        f'    LD_LIBRARY_PATH="{prefix}/lib:$LD_LIBRARY_PATH" \\',
        f'    AZUREML_CONDA_ENVIRONMENT_PATH="{prefix}" \\',
        f'    CONDA_PREFIX="{prefix}" \\',
        f'    CONDA_DEFAULT_ENV="{prefix}"',
    ]
    return "\n".join(lines) + "\n"
