"""The requirements of InfiniBand and of GPUs. Pure rules: facts → findings.

A build machine has no InfiniBand: "no device here" is not "broken". Without a device, it can be known whether the libraries
load and fit together; and if they do not, NCCL and MPI fall back to sockets without a word.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import Final

from aml_train.core.checks import Finding, Level, error, info, warning
from aml_train.image.base_files import rdma_core
from aml_train.image.readiness.facts import Facts, Rule
from aml_train.image.spec import CheckPolicy

_SOCKETS: Final = "NCCL and MPI silently use sockets instead, which can be some forty times slower"
_DRIVERS: Final = "write `ofed: {source: distro}` under image, or add the packages rdma-core, ibverbs-providers, libibverbs1 and librdmacm1 to image.apt"
_REINSTALL: Final = "install the drivers again, from one source: image.ofed, or the distribution's packages"


def _absent(policy: CheckPolicy) -> Level:
    """How bad missing drivers are: configured, needed by several nodes, or neither."""
    return "error" if policy.infiniband else "warning" if policy.several_nodes else "info"


def _verbs(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    library = facts["libraries"]["libibverbs.so.1"]
    if library["status"] == "absent":
        yield Finding(
            check="libibverbs",
            level=_absent(policy),
            what="the image has no InfiniBand drivers (libibverbs.so.1)",
            why=_SOCKETS,
            remedy=_DRIVERS if _absent(policy) != "info" else "",
        )
    elif library["status"] == "broken":
        yield error(
            "libibverbs",
            f"libibverbs.so.1 is there and does not load: {library['error']}",
            why=_SOCKETS,
            remedy=_REINSTALL,
        )
    else:
        yield info("libibverbs", f"libibverbs loads: {library['path']}{_version(facts, 'libibverbs1')}")


def _version(facts: Facts, package: str) -> str:
    version = facts["system_packages"].get(package)
    return f" ({package} {version})" if version else ""


def _mlx5(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    """The provider for the Mellanox adapters of Azure's InfiniBand sizes."""
    if facts["libraries"]["libibverbs.so.1"]["status"] != "ok":
        return
    mlx5 = facts["mlx5"]
    library, wanted, others = mlx5["library"], mlx5["wanted"], mlx5["others"]
    absent: Level = "error" if policy.infiniband else "warning"
    if library is not None and library["status"] != "ok":
        yield error(
            "mlx5",
            f"the provider {wanted} is there and does not load: {library['error']}",
            why=_SOCKETS,
            remedy=_REINSTALL,
        )
    elif library is None and others:
        yield error(
            "mlx5",
            f"libibverbs looks for the provider {wanted or 'mlx5'}, but the image has {', '.join(others)}",
            why=f"library and provider come from different releases, so the adapter is not found and {_SOCKETS}",
            remedy=_REINSTALL,
        )
    elif library is None:
        yield Finding(
            check="mlx5",
            level=absent,
            what=f"libibverbs is there without its provider {wanted or 'mlx5'}",
            why=f"Azure's InfiniBand adapters need it; {_SOCKETS}",
            remedy="add ibverbs-providers to image.apt, or install MLNX_OFED or DOCA with all its user-space packages",
        )
    elif not mlx5["configured"]:
        yield Finding(
            check="mlx5",
            level=absent,
            what="no file in /etc/libibverbs.d names the driver mlx5, although the provider is there",
            why=f"libibverbs loads only what is named there; {_SOCKETS}",
            remedy="put back /etc/libibverbs.d/mlx5.driver with the line `driver mlx5`",
        )
    else:
        yield info("mlx5", f"the mlx5 provider loads: {library['path']}{_version(facts, 'ibverbs-providers')}")


def _rdmacm(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    library = facts["libraries"]["librdmacm.so.1"]
    if library["status"] == "broken":
        yield error(
            "librdmacm",
            f"librdmacm.so.1 is there and does not load: {library['error']}",
            why="UCX and MPI set up connections by it",
            remedy=_REINSTALL,
        )
    elif library["status"] == "absent" and facts["libraries"]["libibverbs.so.1"]["status"] == "ok":
        yield Finding(
            check="librdmacm",
            level="warning" if policy.infiniband or policy.several_nodes else "info",
            what="librdmacm.so.1 is not there",
            why="UCX and MPI set up connections by it",
            remedy="add librdmacm1 to image.apt",
        )


def _device(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    if facts["libraries"]["libibverbs.so.1"]["status"] != "ok":
        return
    devices = facts["devices"]
    seen = devices["seen"]
    if seen is None:
        yield error(
            "infiniband-device",
            "listing the InfiniBand devices crashed",
            why="the same would happen to NCCL and MPI",
            remedy=_REINSTALL,
        )
    elif seen["count"]:
        yield info("infiniband-device", f"{seen['count']} devices here: {', '.join(devices['kernel'])}")
    elif devices["kernel"] and devices["nodes"]:
        yield error(
            "infiniband-device",
            f"the kernel has {', '.join(devices['kernel'])}, and the libraries see no device",
            why=_SOCKETS,
            remedy=_REINSTALL,
        )
    else:
        word = "" if seen["errno"] in (0, errno.ENOSYS) else f" ({errno.errorcode.get(seen['errno'], seen['errno'])})"
        yield info(
            "infiniband-device",
            f"no device here{word}: nothing is broken, a machine without InfiniBand shows no more",
        )


def _ofed(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    """Compare the drivers with those that the base was made for.

    NVIDIA's images name them in MOFED_VERSION: a release of MLNX_OFED, such as 5.1-2.3.7, or in later ones 5.4-rdmacore56.0, which
    means rdma-core 56.0, as RDMACORE_VERSION says, and no MLNX_OFED at all.
    """
    from_base = rdma_core(facts["environment"])
    installed = _numbers(facts["ofed"])
    wanted = () if from_base else _numbers(facts["environment"].get("MOFED_VERSION"))
    if from_base and policy.installs_ofed:
        yield warning(
            "ofed-version",
            f"`image.ofed` installs drivers on a base that brings rdma-core {from_base}",
            why="the base's UCX, NCCL plugin and MPI were built for its own, and two releases in one image may not fit together",
            remedy="delete `image.ofed`, or write `ofed: none`",
        )
    elif installed and wanted and installed[: len(wanted)] < wanted[: len(installed)]:
        yield warning(
            "ofed-version",
            f"MLNX_OFED {_text(installed)} is older than {_text(wanted)}, for which the base was made (MOFED_VERSION)",
            why="the base's UCX, NCCL plugin and MPI may want newer libraries",
            remedy=f"install {_text(wanted)} or newer, or leave the base's own drivers",
        )
    elif installed or wanted or from_base:
        drivers = (
            f"MLNX_OFED {_text(installed)}"
            if installed
            else f"the distribution's drivers{_version(facts, 'libibverbs1')}"
        )
        made_for = f"rdma-core {from_base}" if from_base else _text(wanted) if wanted else ""
        base = f"; the base was made for {made_for}" if made_for else ""
        yield info("ofed-version", drivers + base)


def _numbers(text: str | None) -> tuple[int, ...]:
    """Read the version in such as ``MLNX_OFED_LINUX-5.0-2.1.8.0:``, or nothing."""
    found = re.search(r"(?<!\d)(\d{1,9}(?:[.-]\d{1,9})+)(?!\d)", text or "")
    return tuple(int(part) for part in re.split(r"[.-]", found[1])) if found else ()


def _text(version: tuple[int, ...]) -> str:
    head, tail = ".".join(map(str, version[:2])), ".".join(map(str, version[2:]))
    return f"{head}-{tail}" if tail else head


INFINIBAND_RULES: Final[tuple[Rule, ...]] = (_verbs, _mlx5, _rdmacm, _device, _ofed)


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
