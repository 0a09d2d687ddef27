"""The rules of the readiness checks, by a table: one change to the facts of a good image, and what must be said of it."""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import requests

from aml_train.core.checks import CHECKS
from aml_train.core.errors import ImageError
from aml_train.image.readiness import check as readiness_check
from aml_train.image.readiness import probe as readiness_probe
from aml_train.image.readiness.check import (
    judge_facts,
    parse_facts,
    probe_key,
    probe_script,
    readiness_error,
    summary,
)
from aml_train.image.spec import CheckPolicy

LIB = "/usr/lib/x86_64-linux-gnu"
ABSENT = {"status": "absent", "path": None, "version": None, "error": "cannot open shared object file"}
BROKEN = {"status": "broken", "path": None, "version": None, "error": "file too short"}


def _ok(name: str, version: str | None = None) -> dict[str, Any]:
    return {"status": "ok", "path": f"{LIB}/{name}", "version": version, "error": None}


GOOD: dict[str, Any] = {
    "format": 1,
    "bash": "/usr/bin/bash",
    "python": {"version": "3.11.2", "path": "/usr/bin/python"},
    "commands": {"python": "/usr/bin/python", "mpirun": None},
    "user": {"uid": 0, "name": "root", "home": "/root", "home_writable": True, "tmp_writable": True},
    "certificates": 150,
    "environment": {"PATH": "/usr/bin:/bin"},
    "missing_files": [],
    "python_packages": {"azureml-defaults": "1.62.0", "azureml-mlflow": "1.62.0", "azureml-dataprep": "5.1.6"},
    "system_packages": {"libibverbs1": "44.0-2", "ibverbs-providers": "44.0-2"},
    "azureml": ["azureml-defaults", "azureml-mlflow", "azureml-dataprep", "pyyaml"],
    "pip_check": [],
    "imports": {"azureml.mlflow": None},
    "libraries": {
        "libibverbs.so.1": _ok("libibverbs.so.1.14.44.0"),
        "libfuse.so.2": _ok("libfuse.so.2.9.9"),
    },
    "mlx5": {"configured": True, "wanted": "libmlx5-rdmav34.so", "others": [], "library": _ok("libmlx5.so.1.24.44.0")},
    "nccl": {"library": ABSENT, "plugin": {**ABSENT, "name": "libnccl-net.so"}},
    "cuda": None,
    "torch_cuda": None,
}  # fmt: skip
NO_PYTHON = {"format": 1, "bash": "bash", "python": None}
IB = CheckPolicy(infiniband=True)
NODES = CheckPolicy(several_nodes=True)


def _facts(**changes: Any) -> dict[str, Any]:
    """Return the good facts, changed at dotted places (a dot is written ``__``; a name with dots is given by ``at``)."""
    facts = copy.deepcopy(GOOD)
    for place, value in changes.items():
        *folders, name = place.split("__")
        target = facts
        for folder in folders:
            target = target[folder]
        target[name] = value
    return facts


def _library(name: str, state: dict[str, Any]) -> dict[str, Any]:
    facts = copy.deepcopy(GOOD)
    facts["libraries"][name] = state
    return facts


def test_good_image_has_nothing_but_infos() -> None:
    findings = judge_facts(GOOD, CheckPolicy(packages=("azureml-defaults",), infiniband=True))

    assert readiness_error(findings) is None
    assert summary(findings) == "ready"
    assert {finding.level for finding in findings} == {"info"}
    texts = [str(finding) for finding in findings]
    assert f"mlx5: the mlx5 provider loads: {LIB}/libmlx5.so.1.24.44.0 (ibverbs-providers 44.0-2)" in texts


CASES: list[tuple[str, dict[str, Any], CheckPolicy, str, str]] = [
    ("no bash", _facts(bash=None), IB, "error", "shell: the image has no bash: .*; add bash to image.apt"),
    ("no python", NO_PYTHON, IB, "error", "python: the image has no Python 3 on PATH"),
    ("no command python", _facts(commands__python=None), IB, "warning", "python-command: .*python-is-python3"),
    ("package missing", GOOD, CheckPolicy(packages=("azureml-core",)), "error", "azureml-packages: the image lacks azureml-core"),
    ("none at all", _facts(python_packages={}), CheckPolicy(), "warning", "azureml-packages: .*neither azureml-mlflow nor"),
    ("import fails", _facts(imports={"azureml.core": "ImportError: no x"}), IB, "error",
     "azureml-import: `import azureml.core` fails: ImportError: no x"),
    ("conflict of AzureML", _facts(pip_check=["azureml-mlflow 1.62.0 has requirement pyyaml>=6, but you have pyyaml 5.1."]), IB,
     "error", "azureml-conflicts: azureml-mlflow 1.62.0 has requirement pyyaml>=6, but you have pyyaml 5.1: .*pin versions"),
    ("missing for AzureML", _facts(pip_check=["PyYAML 6.0 requires cython, which is not installed."]), IB, "error",
     "azureml-conflicts: PyYAML 6.0 requires cython, which is not installed"),
    ("other conflict", _facts(pip_check=["numba 0.1 has requirement numpy<2, but you have numpy 2.1."]), IB, "warning",
     "pip-conflicts: numba 0.1 has requirement"),
    ("words of another pip", _facts(pip_check=["something new"]), IB, "warning", "pip-conflicts: something new"),
    ("no certificates", _facts(certificates=0), IB, "error", "certificates: .*add ca-certificates"),
    ("variable to nowhere", _facts(missing_files=["SSL_CERT_FILE=/x"]), IB, "error", "certificates: the image sets SSL_CERT_FILE=/x"),
    ("no fuse", _library("libfuse.so.2", ABSENT), IB, "warning", "fuse: libfuse.so.2 does not load: .*libfuse2"),
    ("broken fuse", _library("libfuse.so.2", BROKEN), IB, "warning", "fuse: libfuse.so.2 does not load: file too short"),
    ("tmp", _facts(user__tmp_writable=False), IB, "error", "user: .*may not write to /tmp.*1777"),
    ("no name", _facts(user={"uid": 1000, "name": None, "home": "/", "home_writable": False, "tmp_writable": True}), IB, "warning",
     r"user: the image's user \(uid 1000\) has no entry in /etc/passwd, or may not write to its home /"),
    ("no drivers, asked for", _library("libibverbs.so.1", ABSENT), IB, "error", "libibverbs: .*no InfiniBand drivers.*sockets"),
    ("no drivers, several nodes", _library("libibverbs.so.1", ABSENT), NODES, "warning", "libibverbs: .*no InfiniBand drivers"),
    ("no drivers, nobody asks", _library("libibverbs.so.1", ABSENT), CheckPolicy(), "info", "libibverbs: .*no InfiniBand drivers"),
    ("broken library", _library("libibverbs.so.1", BROKEN), CheckPolicy(), "error", "libibverbs: .*does not load: file too short"),
    ("no provider", _facts(mlx5__library=None), IB, "error", "mlx5: libibverbs is there without its provider libmlx5-rdmav34.so"),
    ("no provider, nobody asks", _facts(mlx5__library=None), CheckPolicy(), "warning", "mlx5: libibverbs is there without"),
    ("provider of another release", _facts(mlx5__library=None, mlx5__others=["/l/libmlx5-rdmav25.so"]), CheckPolicy(), "error",
     "mlx5: libibverbs looks for the provider libmlx5-rdmav34.so, but the image has /l/libmlx5-rdmav25.so"),
    ("broken provider", _facts(mlx5__library=BROKEN), CheckPolicy(), "error", "mlx5: the provider .* does not load: file too short"),
    ("provider not named", _facts(mlx5__configured=False), IB, "error", "mlx5: no file in /etc/libibverbs.d"),
    ("nccl", _facts(nccl__library=_ok("libnccl.so.2", "2.21.5")), IB, "info", r"nccl: NCCL 2\.21\.5"),
    ("broken nccl", _facts(nccl__library=BROKEN), IB, "error", "nccl: NCCL is there and does not load: file too short"),
    ("broken plugin", _facts(nccl__plugin={**BROKEN, "name": "libnccl-net.so"}), IB, "warning",
     "nccl-plugin: NCCL's network plugin libnccl-net.so does not load: file too short"),
    ("wanted plugin absent", _facts(nccl__plugin={**ABSENT, "name": "libnccl-net-x.so"}, environment__NCCL_NET_PLUGIN="x"), IB,
     "warning", "nccl-plugin: NCCL's network plugin libnccl-net-x.so does not load"),
    ("no InfiniBand for NCCL", _facts(environment__NCCL_IB_DISABLE="1"), IB, "error", "nccl-sockets: the image sets NCCL_IB_DISABLE=1"),
    ("sockets for NCCL", _facts(environment__NCCL_NET="Socket"), NODES, "warning", "nccl-sockets: the image sets NCCL_NET=Socket"),
    ("versions", _facts(python_packages__torch="2.4.0", torch_cuda="12.4", cuda="12.6.1"), IB, "info",
     r"cuda: CUDA 12\.6\.1, torch 2\.4\.0 for CUDA 12\.4"),
    ("stubs", _facts(environment__LD_LIBRARY_PATH="/a:/usr/local/cuda/lib64/stubs"), IB, "warning", "cuda: LD_LIBRARY_PATH has .*stubs"),
    ("capabilities", _facts(environment__NVIDIA_DRIVER_CAPABILITIES="video", cuda="12.6"), IB, "warning", "cuda: .*CAPABILITIES=video"),
    ("no mpi", _facts(), CheckPolicy(mpi=True), "error", "mpi: the image has no mpirun: jobs with `distribution"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "policy", "level", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_is_said(facts: dict[str, Any], policy: CheckPolicy, level: str, text: str) -> None:
    found = [finding for finding in judge_facts(facts, policy) if re.match(text, str(finding), re.DOTALL)]

    assert [finding.level for finding in found] == [level], [str(finding) for finding in judge_facts(facts, policy)]
    if level != "info":
        assert found[0].why
        assert found[0].remedy
    assert found[0].check in CHECKS


def test_errors_come_first_and_name_the_way_to_allow_them() -> None:
    facts = _facts(
        bash=None, commands__python=None, pip_check=["azureml-defaults 1 requires x, which is not installed."]
    )
    findings = judge_facts(facts, CheckPolicy())
    error = readiness_error(findings)

    assert [finding.level for finding in findings[:3]] == ["error", "error", "warning"]
    assert summary(findings) == "2 errors, 1 warning"
    assert error is not None
    assert error.exit_code == 3
    assert error.message.startswith("the image is not ready for AzureML: 2 checks fail\n  shell: ")
    assert "{checks: {ignore: [shell, azureml-conflicts]}}" in (error.hint or "")


def test_what_is_ignored_counts_as_info_and_is_still_said() -> None:
    findings = judge_facts(_facts(bash=None), CheckPolicy(ignore=("shell",)))

    assert readiness_error(findings) is None
    assert summary(findings) == "ready"
    assert [(f.level, f.ignored) for f in findings if f.check == "shell"] == [("error", True)]
    assert any("the image has no bash (ignored): AzureML runs" in str(finding) for finding in findings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"[]", "it is not a mapping"),
        (b'{"format": 1, "python": null}', "it lacks bash"),
        (json.dumps({**GOOD, "mlx5": {"configured": 1}}).encode(), "configured is int"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "nccl"}).encode(), "it lacks nccl"),
        (b"[" * 100_000, "is not JSON|nested too deeply"),
    ],
)
def test_damaged_facts(content: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        parse_facts(content)


def test_the_probe_is_python_3_6_and_imports_nothing_of_ours() -> None:
    source = probe_script().decode()
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert not [name for name in imported if name.startswith("aml_train")]
    assert "capture_output" not in source  # since 3.7
    assert "text=True" not in source  # since 3.7
    assert "removeprefix" not in source  # since 3.9
    assert re.fullmatch("[0-9a-f]{16}", probe_key())


def test_the_documentation_names_every_check() -> None:
    text = (Path(__file__).parents[4] / "docs" / "image.md").read_text(encoding="utf-8")
    section = text.partition("\n### The checks\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)
    assert rows == list(CHECKS)


def test_the_closure_of_the_azureml_packages() -> None:
    requires = {
        "azureml-mlflow": ["mlflow-skinny", "not-there"],
        "mlflow-skinny": ["pyyaml"],
        "pyyaml": [],
        "numpy": [],
    }
    assert readiness_probe.closure(["azureml-mlflow", "azureml-core"], requires) == [
        "azureml-mlflow",
        "mlflow-skinny",
        "pyyaml",
    ]


def test_an_engine_that_goes_away_is_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_args: Any) -> Any:
        raise requests.ConnectionError("reset")

    monkeypatch.setattr(readiness_check, "temporary", lambda *_: contextlib.nullcontext(mock.MagicMock()))
    monkeypatch.setattr(readiness_check, "container_labels", lambda *_: {})
    monkeypatch.setattr(readiness_check, "run_container", gone)
    with pytest.raises(ImageError, match="the Docker engine went away during the checks"):
        readiness_check.probe_image(mock.MagicMock(), "image")
