"""The requirements of GPUs and of their communication. Pure: facts → findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aml_train.core.checks import Finding, error, info, warning
from aml_train.image.readiness.facts import Facts, Rule
from aml_train.image.spec import CheckPolicy


def _nccl(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    library = facts["nccl"]["library"]
    if library["status"] == "ok":
        yield info("nccl", f"NCCL {library['version'] or '(unknown version)'}: {library['path']}")
    elif library["status"] == "broken":
        yield error(
            "nccl",
            f"NCCL is there and does not load: {library['error']}",
            why="training on several GPUs would fail",
            remedy="install NCCL again, in the version that the image's torch or CUDA needs",
        )


def _plugin(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    plugin, wanted = facts["nccl"]["plugin"], facts["environment"].get("NCCL_NET_PLUGIN", "")
    if plugin["status"] == "ok":
        yield info("nccl-plugin", f"NCCL's network plugin loads: {plugin['path']}")
    elif plugin["status"] == "broken" or wanted not in ("", "none"):
        yield warning(
            "nccl-plugin",
            f"NCCL's network plugin {plugin['name']} does not load: {plugin['error']}",
            why="NCCL then continues without it, at less than the network's speed",
            remedy="install what it needs (UCX, SHARP, libibverbs), check LD_LIBRARY_PATH, or remove the plugin",
        )


def _sockets(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    """NCCL_IB_DISABLE and NCCL_NET (NCCL's documentation, "Environment Variables")."""
    variables = facts["environment"]
    forcing = []
    if variables.get("NCCL_IB_DISABLE", "0") not in ("", "0"):
        forcing.append(f"NCCL_IB_DISABLE={variables['NCCL_IB_DISABLE']}")
    if variables.get("NCCL_NET", "").lower() == "socket":
        forcing.append(f"NCCL_NET={variables['NCCL_NET']}")
    if forcing:
        yield Finding(
            check="nccl-sockets",
            level="error" if policy.infiniband else "warning",
            what=f"the image sets {' and '.join(forcing)}",
            why="NCCL uses sockets even if there is InfiniBand",
            remedy="do not set it in the image, or set it in the job for computes without InfiniBand",
        )


def _cuda(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    packages, variables = facts["python_packages"], facts["environment"]
    found = [f"CUDA {facts['cuda']}"] if facts["cuda"] else []
    if torch := packages.get("torch"):
        found.append(
            f"torch {torch} " + (f"for CUDA {facts['torch_cuda']}" if facts["torch_cuda"] else "without CUDA")
        )
    found += [
        f"{name} {packages[name]}" for name in ("tensorflow", "jax", "horovod", "deepspeed") if name in packages
    ]
    if found:
        yield info("cuda", ", ".join(found))
    stubs = [one for one in variables.get("LD_LIBRARY_PATH", "").split(":") if one.rstrip("/").endswith("/stubs")]
    if stubs:
        yield warning(
            "cuda",
            f"LD_LIBRARY_PATH has {', '.join(stubs)}",
            why="the empty libcuda there hides the GPU's driver, and CUDA finds no device",
            remedy="leave it out of the image's LD_LIBRARY_PATH; it is for linking only",
        )
    capabilities = variables.get("NVIDIA_DRIVER_CAPABILITIES")
    if capabilities is not None and facts["cuda"] and not {"all", "compute"} & set(capabilities.split(",")):
        yield warning(
            "cuda",
            f"the image sets NVIDIA_DRIVER_CAPABILITIES={capabilities}",
            why="without `compute` the container gets no CUDA driver",
            remedy="set it to compute,utility",
        )


def _mpi(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    why = "jobs with `distribution: {type: mpi}` start their processes by it"
    if facts["commands"].get("mpirun") is None:
        if policy.mpi:
            remedy = "install Open MPI, such as `image.apt: [openmpi-bin]`, or take a base with it"
            yield error("mpi", "the image has no mpirun", why=why, remedy=remedy)
    elif facts["mpi"]:
        yield info("mpi", f"{facts['mpi']}, {facts['commands']['mpirun']}")
    else:
        yield warning(
            "mpi",
            "mpirun is there and does not report its version",
            why=why,
            remedy="run `mpirun --version` in the image and install what it asks for",
        )


GPU_RULES: Final[tuple[Rule, ...]] = (_nccl, _plugin, _sockets, _cuda, _mpi)
