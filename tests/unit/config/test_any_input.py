"""Whatever the input is: a configuration, or InvalidError with faults. Never another exception, never without end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aml_train.config.document import DOCUMENT, json_schema
from aml_train.config.job.grammar import JOB
from aml_train.config.load import load_config
from aml_train.config.sections.image import IMAGE
from aml_train.config.yaml.nodes import Faults
from aml_train.config.yaml.tree import parse
from aml_train.core.errors import Fault, InvalidError

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
SCHEMA = Draft202012Validator(json_schema())
quick = settings(deadline=None, max_examples=70, suppress_health_check=[HealthCheck.too_slow])

WORDS = [
    "no",
    "1.10",
    "010",
    "1:30",
    ".nan",
    "2020-01-01",
    "2020-99-99",
    "0x_",
    "~",
    "",
    "<<",
    "=",
    "${{",
    "a.b",
    "src",
    "/dev/zero",
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "src").mkdir()
        (Path(name) / "src/train.py").write_text("")
        yield Path(name)


def check(folder: Path, data: bytes, **options: Any) -> None:
    (folder / "aml-train.yml").write_bytes(data)
    faults: tuple[Fault, ...] = ()
    try:
        load_config(None, directory=folder, **options)
    except InvalidError as error:
        faults = error.faults or (Fault(where="", what="no fault"),)
    for fault in faults:
        assert fault.where
        assert fault.what
        assert "\n" not in str(fault)
        assert len(str(fault)) < 1500


KEYS = sorted(
    {
        *DOCUMENT.keys,
        *JOB.keys,
        "type",
        "path",
        "base",
        "pip",
        "command",
        "value",
        "local",
        "output",
        "image",
        "a",
        *IMAGE.keys,
        "source",
        "from",
        "to",
    }
)
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


@quick
@given(document=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), bare=st.booleans())
def test_documents(folder: Path, document: dict[str, Any], bare: bool) -> None:
    whole = document if bare else {"job": document, **document}
    check(folder, yaml.safe_dump(whole, allow_unicode=True).encode())


@quick
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


@quick
@given(where=st.lists(st.integers(0, 5), min_size=1, max_size=4), value=VALUES)
def test_the_schema_takes_what_the_loader_takes(folder: Path, where: list[int], value: Any) -> None:
    document = yaml.safe_load(GOOD)
    here = document
    for step in where:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = keys[step % len(keys)]
        if not isinstance(here[key], dict | list) or not here[key] or step == where[-1]:
            here[key] = value
            break
        here = here[key]
    text = yaml.safe_dump(document)
    (folder / "aml-train.yml").write_text(text)
    try:
        load_config(None, directory=folder)
    except InvalidError:
        return
    assert [error.message for error in SCHEMA.iter_errors(yaml.safe_load(text))] == []


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
WORDS_V1 = [
    "'",
    '"',
    "a 'b c' \\",
    "'${{inputs.d}}'",
    "#'${{inputs.d}}",
    "$[[${{inputs.v}}]]",
    "azureml:a@b",
    "pytorch",
    "7",
]


@quick
@given(where=st.lists(st.integers(0, 9), min_size=2, max_size=4), value=st.sampled_from(WORDS_V1) | VALUES)
@example(where=[0, 0, 1], value=2**63)
@example(where=[0, 2, 1], value=2**63)
@example(where=[0, 5, 1], value=2**63)
@example(where=[0, 5, 2, 1], value=2**63)
def test_jobs_of_the_sdk_v1(folder: Path, where: list[int], value: Any) -> None:
    here = document = yaml.safe_load(GOOD_V1)
    for step in where:
        key = sorted(here)[step % len(here)]
        if not isinstance(here[key], dict) or step == where[-1]:
            here[key] = value
            break
        here = here[key]
    check(folder, yaml.safe_dump(document, allow_unicode=True).encode())
