"""action.yml, the typed inputs, the outputs, the documents and the Dockerfile agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aml_train_action.inputs import INPUTS
from aml_train_action.legacy import LEGACY_INPUTS
from aml_train_action.outputs import OUTPUTS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/action.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table below *heading*, by the word in their first cell."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in rows}


def test_the_inputs_are_those_of_the_code(action: Any) -> None:
    declared = action["inputs"]
    assert list(declared) == [*INPUTS, *sorted(LEGACY_INPUTS, key=list(declared).index)]
    assert {name: one["default"] for name, one in declared.items() if name in INPUTS} == dict(INPUTS)
    for name, one in declared.items():
        assert one["description"], name
        assert ("deprecationMessage" in one) == (name in LEGACY_INPUTS), name


def test_the_outputs_are_those_of_the_code(action: Any) -> None:
    assert tuple(action["outputs"]) == OUTPUTS
    assert all(one["description"] for one in action["outputs"].values())


def test_the_page_has_every_input_with_its_default() -> None:
    rows = table("Inputs")
    assert list(rows) == list(INPUTS)
    assert {name: cells[0].strip("`") for name, cells in rows.items()} == dict(INPUTS)


def test_the_page_has_every_output() -> None:
    assert list(table("Outputs")) == list(OUTPUTS)


def test_the_migration_page_has_every_former_input() -> None:
    page = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
    for name in LEGACY_INPUTS:
        assert f"| `{name}` |" in page


def test_names_are_in_kebab_case(action: Any) -> None:
    for name in (*INPUTS, *OUTPUTS):
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    assert action["runs"] == {"using": "docker", "image": "Dockerfile"}
    assert set(action["branding"]) == {"icon", "color"}


def test_every_input_of_the_documented_workflows_exists() -> None:
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S):
        document = yaml.safe_load(text)
        jobs = document["jobs"].values() if isinstance(document, dict) else [{"steps": document}]
        steps = [step for job in jobs for step in job["steps"] if step.get("uses", "").startswith("org/aml-train@")]
        assert steps
        for step in steps:
            assert set(step.get("with", {})) <= set(INPUTS)
        used = re.findall(r"steps\.\w+\.outputs\.([\w-]+)", text)
        assert set(used) <= set(OUTPUTS)


def test_the_dockerfile_is_safe_for_the_classic_builder() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for word in ("--mount", "<<", "--link", "# syntax"):
        assert word not in code
    assert code.index("--require-hashes") < code.index("COPY runner")
    assert 'ENTRYPOINT ["/opt/aml-train/bin/python", "-I"' in code
    for source in re.findall(r"^COPY (?!--from)(\S+)", code, re.M):
        assert (ROOT / source).exists()
