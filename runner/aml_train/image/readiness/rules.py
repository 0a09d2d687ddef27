"""The requirements of AzureML, InfiniBand and GPUs of an image. Pure rules: facts → findings.

A build machine has no InfiniBand: without a device, it can be known whether the libraries load and fit together; and if they
do not, NCCL and MPI fall back to sockets without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from aml_train.core.checks import Finding, Level, error, info, warning
from aml_train.image.readiness.facts import Facts
from aml_train.image.spec import CheckPolicy

_SHOWN: Final = 10
_SOCKETS: Final = "NCCL and MPI silently use sockets instead, which can be some forty times slower"
_REINSTALL: Final = "install the drivers again, from one source: image.ofed, or the distribution's packages"
# The words of pip's command ``check`` (pip/_internal/commands/check.py, since 9.0).
_CONFLICT: Final = re.compile(
    r"(\S+) \S+ (?:requires .+, which is not installed|has requirement .+, but you have .+)"
)


def judge(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    """Yield what there is to say of an image; of one without a Python, little is known."""
    if facts["bash"] is None:
        yield error(
            "shell",
            "the image has no bash",
            why="AzureML runs a job's command by bash",
            remedy="add bash to image.apt",
        )
    if facts["python"] is None:
        yield error(
            "python",
            "the image has no Python 3 on PATH",
            why="the AzureML packages need Python 3, and this check needs 3.6",
            remedy="build from an image with Python, or add python3 and python3-pip to image.apt",
        )
        return
    for rule in (_python, _packages, _conflicts, _system, _verbs, _nccl, _cuda):
        yield from rule(facts, policy)


def _python(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    yield info("python", f"Python {facts['python']['version']} at {facts['python']['path']}")
    if facts["commands"].get("python") is None:
        yield warning(
            "python-command",
            "the image has python3, but no command python",
            why="a job whose command starts with `python` ends with exit code 127",
            remedy="write python3 in the job's command, or add python-is-python3 to image.apt",
        )
    if policy.mpi and facts["commands"].get("mpirun") is None:
        yield error(
            "mpi",
            "the image has no mpirun",
            why="jobs with `distribution: {type: mpi}` start their processes by it",
            remedy="install Open MPI, such as `image.apt: [openmpi-bin]`, or take a base with it",
        )


def _packages(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    installed = facts["python_packages"]
    missing = [name for name in policy.packages if name not in installed]
    found = [f"{name} {installed[name]}" for name in ("azureml-defaults", "azureml-mlflow") if name in installed]
    if missing:
        yield error(
            "azureml-packages",
            f"the image lacks {', '.join(missing)}",
            why="the configuration asks for it, so a later step removed it or another Python has the package",
            remedy=f"see whether image.pip or the base removes it, and that `{facts['python']['path']} -m pip list` shows it",
        )
    elif not found and "azureml-core" not in installed:
        yield warning(
            "azureml-packages",
            "the image has neither azureml-mlflow nor azureml-defaults",
            why="a job cannot log metrics to AzureML with MLflow, so a gate would find none",
            remedy="write azureml-mlflow: true (or a version) under image",
        )
    elif found:
        yield info("azureml-packages", ", ".join(found))
    for name, why in facts["imports"].items():
        if why is not None:
            yield error(
                "azureml-import",
                f"`import {name}` fails: {why}",
                why="what a job logs or reads through it would fail in the same way",
                remedy="look for a missing or unfit package, such as those under azureml-conflicts",
            )


def _conflicts(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    """Conflicts of the AzureML packages are errors; many bases come with others."""
    ours: list[str] = []
    others: list[str] = []
    for line in facts["pip_check"] or ():
        match = _CONFLICT.match(line)
        name = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
        (ours if name in facts["azureml"] else others).append(line.rstrip("."))
    if ours:
        yield error(
            "azureml-conflicts",
            _listed(ours),
            why="the AzureML packages were not made to work with this",
            remedy="pin versions that fit together under image.pip; `pip install` of one requirements file resolves them at once",
        )
    if others:
        yield warning(
            "pip-conflicts",
            _listed(others),
            why="a package runs with versions that it was not made for",
            remedy="pin fitting versions under image.pip, unless the base comes like this and you know it",
        )


def _listed(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _system(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    """Certificates, libfuse, and the user of the job's processes."""
    for entry in facts["missing_files"]:
        yield error(
            "certificates",
            f"the image sets {entry}, which is not there",
            why="https fails with every service, AzureML's included",
            remedy="add the file, or do not set the variable",
        )
    if not facts["certificates"]:
        yield error(
            "certificates",
            "Python finds no certificate authorities",
            why="https fails with whatever does not bring its own, AzureML's services included",
            remedy="add ca-certificates to image.apt",
        )
    fuse = facts["libraries"]["libfuse.so.2"]
    if fuse["status"] != "ok" and "azureml-dataprep" in facts["python_packages"]:
        yield warning(
            "fuse",
            f"libfuse.so.2 does not load: {fuse['error']}",
            why="azureml-dataprep mounts datasets of jobs of the first SDK by it; inputs of CLI v2 jobs are mounted from outside",
            remedy="add libfuse2 (libfuse2t64 from Debian 13 and Ubuntu 24.04 on) to image.apt",
        )
    user = facts["user"]
    if not user["tmp_writable"]:
        yield error(
            "user",
            f"the image's user (uid {user['uid']}) may not write to /tmp",
            why="Python, torch and AzureML keep files there",
            remedy="give /tmp the mode 1777",
        )
    if user["uid"] != 0 and (user["name"] is None or not user["home_writable"]):
        yield warning(
            "user",
            f"the image's user (uid {user['uid']}) has no entry in /etc/passwd, or may not write to its home {user['home']}",
            why="getpass, torch's compiler, matplotlib and caches of models need both",
            remedy="create the user with useradd --create-home, or set HOME to a folder that it owns",
        )


def _verbs(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    """InfiniBand: libibverbs, and its provider for the Mellanox adapters of Azure's sizes."""
    library, mlx5 = facts["libraries"]["libibverbs.so.1"], facts["mlx5"]
    if library["status"] == "absent":
        level: Level = "error" if policy.infiniband else "warning" if policy.several_nodes else "info"
        yield Finding(
            check="libibverbs",
            level=level,
            what="the image has no InfiniBand drivers (libibverbs.so.1)",
            why=_SOCKETS,
            remedy=""
            if level == "info"
            else "write `ofed: {source: distro}` under image, or take a base with drivers",
        )
        return
    if library["status"] == "broken":
        yield error(
            "libibverbs",
            f"libibverbs.so.1 is there and does not load: {library['error']}",
            why=_SOCKETS,
            remedy=_REINSTALL,
        )
        return
    yield info("libibverbs", f"libibverbs loads: {library['path']}{_version(facts, 'libibverbs1')}")
    provider, wanted = mlx5["library"], mlx5["wanted"] or "mlx5"
    if provider is not None and provider["status"] == "ok" and mlx5["configured"]:
        yield info("mlx5", f"the mlx5 provider loads: {provider['path']}{_version(facts, 'ibverbs-providers')}")
        return
    level = "error" if policy.infiniband else "warning"
    if provider is not None and provider["status"] != "ok":
        level, what = "error", f"the provider {wanted} is there and does not load: {provider['error']}"
    elif provider is None and mlx5["others"]:
        level, what = (
            "error",
            f"libibverbs looks for the provider {wanted}, but the image has {', '.join(mlx5['others'])}",
        )
    elif provider is None:
        what = f"libibverbs is there without its provider {wanted}"
    else:
        what = "no file in /etc/libibverbs.d names the driver mlx5, although the provider is there"
    yield Finding(
        check="mlx5",
        level=level,
        what=what,
        why=f"Azure's InfiniBand adapters are not found without it, and {_SOCKETS}",
        remedy=_REINSTALL,
    )


def _version(facts: Facts, package: str) -> str:
    version = facts["system_packages"].get(package)
    return f" ({package} {version})" if version else ""


def _nccl(facts: Facts, policy: CheckPolicy) -> Iterator[Finding]:
    library, plugin, variables = facts["nccl"]["library"], facts["nccl"]["plugin"], facts["environment"]
    if library["status"] == "ok":
        yield info("nccl", f"NCCL {library['version'] or '(unknown version)'}: {library['path']}")
    elif library["status"] == "broken":
        yield error(
            "nccl",
            f"NCCL is there and does not load: {library['error']}",
            why="training on several GPUs would fail",
            remedy="install NCCL again, in the version that the image's torch or CUDA needs",
        )
    wanted = variables.get("NCCL_NET_PLUGIN", "") not in ("", "none")
    if plugin["status"] == "broken" or (plugin["status"] == "absent" and wanted):
        yield warning(
            "nccl-plugin",
            f"NCCL's network plugin {plugin['name']} does not load: {plugin['error']}",
            why="NCCL then continues without it, at less than the network's speed",
            remedy="install what it needs (UCX, SHARP, libibverbs), check LD_LIBRARY_PATH, or remove the plugin",
        )
    # NCCL's documentation, "Environment Variables".
    forcing = {
        "NCCL_IB_DISABLE": variables.get("NCCL_IB_DISABLE", "0") not in ("", "0"),
        "NCCL_NET": variables.get("NCCL_NET", "").lower() == "socket",
    }
    for name in (name for name, forces in forcing.items() if forces):
        yield Finding(
            check="nccl-sockets",
            level="error" if policy.infiniband else "warning",
            what=f"the image sets {name}={variables[name]}",
            why="NCCL uses sockets even if there is InfiniBand",
            remedy="do not set it in the image, or set it in the job for computes without InfiniBand",
        )


def _cuda(facts: Facts, _: CheckPolicy) -> Iterator[Finding]:
    variables, torch = facts["environment"], facts["python_packages"].get("torch")
    found = [f"CUDA {facts['cuda']}"] if facts["cuda"] else []
    if torch:
        built = f"for CUDA {facts['torch_cuda']}" if facts["torch_cuda"] else "without CUDA"
        found.append(f"torch {torch} {built}")
    if found:
        yield info("cuda", ", ".join(found))
    if any(one.rstrip("/").endswith("/stubs") for one in variables.get("LD_LIBRARY_PATH", "").split(":")):
        yield warning(
            "cuda",
            f"LD_LIBRARY_PATH has stubs: {variables['LD_LIBRARY_PATH']}",
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
