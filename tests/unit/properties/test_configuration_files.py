"""Jobs, run configurations and aml-train.yml of this repository, changed: a configuration, or faults with their places."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aml_train.config.document import DOCUMENT, json_schema
from aml_train.config.job.grammar import JOB
from aml_train.config.load import load_config
from aml_train.config.yaml.nodes import Faults
from aml_train.config.yaml.tree import parse
from aml_train.core.errors import InvalidError
from tests.unit.config.good_jobs import good_jobs, write_job_folder
from tests.unit.properties.foreign import ROOT, as_bytes, files, foreign, scratch

GOOD = """\
job:
  command: >-
    python train.py ${{inputs.a}} $[[--x ${{inputs.b}}]]
  inputs: {a: &x 5, b: {type: uri_folder, path: src}}
  outputs: {m: {type: uri_folder}}
  environment: {image: x}
  distribution: {type: mpi}
image:
  base: "python:3.11"
  ofed: {source: mlnx_ofed, version: "5.8-2.0.3.0", os: ubuntu22.04}
  apt: [libx]
  pip: {packages: [numpy], index-url: "https://u:${token}@p.example.com/simple", netrc: token}
  conda: {file: src/train.py}
  env: {A: *x}
  copy: [{from: src, to: /opt/src}]
  run: [make, {command: "make x", secrets: [token]}]
  user: "1000:1000"
  ca-certificates: [src/train.py]
  secrets: {token: {env: TOKEN}}
  refresh: 7d
  protect: {packages: [torch, "nvidia-*"], allow: [nvidia-x]}
tests: {command: pytest -q, timeout: 30m}
gate: {"val/a.b": [">= 0.5", "min < 3"]}
model: {name: m, output: m}
watch: {timeout: 90}
targets:
  a: {subscription-id: 00000000-0000-0000-0000-000000000000, resource-group: g, workspace: w1, registry: a.io}
"""
GOOD_V1 = """\
sdk: v1
job:
  command: python train.py ${{inputs.a}} "${{inputs.d}}" $[[--x ${{inputs.b}}]]
  inputs: {a: 5, d: {type: uri_folder, path: azureml://datastores/w/paths/a, mode: download}, v: {value: 1}}
  environment: {image: x, conda_file: {dependencies: [python]}}
  environment_variables: {A: b}
  resources: {instance_count: 2, shm_size: 2g, docker_args: --ipc host}
  distribution: {type: tensorflow, worker_count: 2, parameter_server_count: 1}
  limits: {timeout: 60}
  identity: {type: user_identity}
"""

PLACE = re.compile(r"[^\n]+?(:[1-9][0-9]*)?")
EXPRESSIONS = ("${{inputs.a}}", "${{parent.jobs.prep.outputs.out}}", "${{search_space.x}}", "$[[--x ${{inputs.b}}]]")


@cache
def project(name: str) -> Path:
    """Return a folder with the files that the seeds name."""
    folder = scratch(name)
    write_job_folder(folder)
    for inner, text in {"requirements.txt": "numpy==2.1.0\n", "Dockerfile": "FROM python:3.11\n"}.items():
        (folder / inner).write_text(text, encoding="utf-8")
    return folder


def loaded(load: Callable[[], Any]) -> Any:
    """Load a configuration; check what a refusal says, and return None for one."""
    try:
        return load()
    except InvalidError as error:
        faults = error.faults
    assert faults, "a refusal without faults"
    for fault in faults:
        assert fault.what
        assert PLACE.fullmatch(fault.where), f"a fault has the place {fault.where[:200]!r}"
        assert "\n" not in str(fault)
        assert len(str(fault).encode()) <= 6000
    return None


def cases(name: str) -> list[str]:
    """Return the inputs of a table of tests/unit/config: after ``=== name``, before what is expected."""
    parts = re.split(r"(?m)^=== .*\n", (ROOT / "tests/unit/config" / name).read_text(encoding="utf-8"))[1:]
    return [part.partition("\n>>>")[0].partition("\n@@@")[0] for part in parts]


BEYOND_INT64 = GOOD_V1.replace("a: 5", f"a: {2**63}").replace("instance_count: 2", f"instance_count: {2**63}")
CONFIGURATIONS = [GOOD, GOOD_V1, BEYOND_INT64, *files("examples/**/aml-train.yml", "tests/projects/*/aml-train.yml")]
JOBS = [
    *good_jobs().values(),
    *files(*(f"examples/**/{one}" for one in ("job.yml", "sweep.yml", "pipeline.yml", "components/*.yml"))),
]
RUNCONFIGS = [*cases("good_runconfigs.txt"), *files("examples/**/*.runconfig", "tests/unit/config/runconfigs/*")]


@foreign(CONFIGURATIONS, [*DOCUMENT.keys, "azureml:e:1", ">= 0.5", "baseline", "7d", *EXPRESSIONS], tree=True)
def test_configuration(text: str) -> None:
    """What is loaded is valid by the schema as well."""
    folder = project("configuration")
    (folder / "aml-train.yml").write_bytes(as_bytes(text))
    if loaded(lambda: load_config(None, directory=folder)) is not None:
        document = yaml.safe_load(text.removeprefix("\ufeff"))
        if {"job", "runconfig", "image"} & document.keys():  # else it is a job
            assert not [fault.message for fault in Draft202012Validator(json_schema()).iter_errors(document)]


@foreign(
    JOBS,
    [*JOB.keys, "jobs", "trial", "search_space", "objective", "component", "type", "path", *EXPRESSIONS],
    tree=True,
)
def test_jobs(text: str) -> None:
    folder = project("jobs")
    (folder / "job.yml").write_bytes(as_bytes(text))
    loaded(lambda: load_config(None, directory=folder))


@foreign(
    RUNCONFIGS,
    "script framework communicator docker baseImage nodeCount history data mpi environmentVariables",
    tree=True,
)
def test_runconfigs(text: str) -> None:
    folder = project("runconfigs")
    (folder / ".azureml").mkdir(exist_ok=True)
    (folder / ".azureml/train.runconfig").write_bytes(as_bytes(text))
    for sdk in ("v1", "v2"):
        (folder / "aml-train.yml").write_text(f"sdk: {sdk}\nrunconfig: train\n")
        loaded(lambda: load_config(None, directory=folder))


@foreign(
    [
        "watch.timeout=90",
        "job.inputs.a=7",
        'gate."val/a.b"=[">= 0.9"]',
        "gate.'val/a.b'.0=< 5",
        "tests={command: pytest}",
    ],
    [*(f"{key}=" for key in DOCUMENT.keys), "job.", ".0", "={}", "=[]"],
)
def test_overrides(text: str) -> None:
    folder = project("overrides")
    (folder / "aml-train.yml").write_text(GOOD)
    if "\0" not in text:
        loaded(lambda: load_config(None, directory=folder, sets=[text]))


WORDS = [
    "",
    *[
        "no",
        "1.10",
        "010",
        "1:30",
        ".nan",
        "2020-01-01",
        "2020-99-99",
        "0x_",
        "~",
        "<<",
        "=",
        "${{",
        "a.b",
        "src",
        "/dev/zero",
    ],
]
KEYS = [*DOCUMENT.keys, "type", "path", "a"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.sampled_from(WORDS)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=70, suppress_health_check=[HealthCheck.too_slow])
@given(document=VALUES)
def test_the_tree_says_what_pyyaml_says(document: Any) -> None:
    """A file without faults means the same here as to azure-ai-ml's parser."""
    faults = Faults()
    text = yaml.safe_dump({"key": document}, allow_unicode=True)
    node = parse(text, "f", faults)
    if not faults and node is not None:
        assert repr(_plain(node)) == repr(yaml.safe_load(text))


def _plain(node: Any) -> Any:
    if hasattr(node, "entries"):
        return {key: _plain(entry.node) for key, entry in node.entries.items()}
    return [_plain(item) for item in node.items] if hasattr(node, "items") else node.value
