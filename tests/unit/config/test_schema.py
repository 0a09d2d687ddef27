"""The JSON Schema, the loader and docs/configuration.md say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aml_train.config.document import DOCUMENT, json_schema
from aml_train.config.job.grammar import JOB
from aml_train.config.load import load_config
from aml_train.config.section import keys_of
from aml_train.config.sections.gate import GATE
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.images import IMAGES
from aml_train.config.yaml.shapes import Shape
from aml_train.config.yaml.structures import Either, Items, Record, Table, Variants
from aml_train.core.errors import InvalidError

ROOT = Path(__file__).parents[3]
DOCUMENTATION = ROOT / "docs/configuration.md"
JOB_TEXT = "job: {command: x, environment: 'azureml:e:1'}\n"
SCHEMA = Draft202012Validator(json_schema())

STRUCTURAL = [
    "image: {}",
    "job: job.yml\nimage: 5",
    "image: {base: 5}",
    "image: {base: x, apt: [Foo]}",
    "image: {base: x, env: {1x: a}}",
    "image: {base: x, repository: Foo}",
    "image: {base: x}\ntests: {}",
    "image: {base: x}\ntests: {command: x, network: maybe}",
    "gate: {a: []}",
    "promote: {production: {gate: {a: 0.5}}}",
    "model: {name: a}",
    "model: {name: a b, path: x}",
    "watch: {timeout: 0}",
    "targets: {a: {workspace: x!}}",
    "job: {command: x, environment: 'azureml:e:1', inputs: {a-b: 1}}",
    "job: {command: x, environment: {}}",
]


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("text", STRUCTURAL)
def test_both_refuse(text: str, tmp_path: Path) -> None:
    whole = text if text.startswith("job:") else JOB_TEXT + text
    (tmp_path / "aml-train.yml").write_text(whole)
    with pytest.raises(InvalidError):
        load_config(None, directory=tmp_path)
    assert not SCHEMA.is_valid(yaml.safe_load(whole))


def test_both_accept_good_jobs(good_job: str, job_folder: Path) -> None:
    document = {"job": yaml.safe_load(good_job)}
    (job_folder / "aml-train.yml").write_text(yaml.safe_dump(document))
    load_config(None, directory=job_folder)
    assert [error.message for error in SCHEMA.iter_errors(document)] == []


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*/aml-train.yml")), ids=lambda file: file.parent.name
)
def test_both_accept_the_examples(file: Path) -> None:
    load_config(file, directory=file.parent)
    assert [error.message for error in SCHEMA.iter_errors(yaml.safe_load(file.read_text()))] == []


def test_every_example_in_the_documentation_is_good(job_folder: Path) -> None:
    names = ("image.md", "promotion.md", "sdk-v1.md")
    pages = [DOCUMENTATION, *map(DOCUMENTATION.with_name, names)]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    examples = re.findall(r"(?s)```yaml\n# aml-train.yml\n(.*?)```", text)
    assert len(examples) > 4
    (job_folder / "requirements.txt").write_text("")
    (job_folder / "Dockerfile").write_text("FROM x")
    (job_folder / "tests").mkdir(exist_ok=True)
    runconfig = "script: train.py\nenvironment: {docker: {baseImage: x}}\n"
    for name, content in {".azureml/gpu.runconfig": runconfig, "conf/train.yml": runconfig, "train.py": ""}.items():
        (job_folder / name).parent.mkdir(exist_ok=True)
        (job_folder / name).write_text(content)
    for example in examples:
        outputs = "outputs: {model: }\n" if "output: model" in example else ""
        (job_folder / "job.yml").write_text(f"command: x\nenvironment: azureml:e:1\n{outputs}")
        (job_folder / "aml-train.yml").write_text(example)
        load_config(None, directory=job_folder)
        assert SCHEMA.is_valid(yaml.safe_load(example))


def rows(shape: Shape, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its line in the documentation, as dotted names; NAME stands for keys of the user's choice."""
    match shape:
        case Record():
            for key, spec in shape.keys.items():
                name = f"{prefix}.{key}" if prefix else key
                yield name, spec.text + (" **Required.**" if spec.required else "")
                yield from rows(spec.shape, name)
        case Table() if shape is GATE and prefix != "gate":
            return  # the same rules again
        case Table() if shape is IMAGES and isinstance(shape.value, Record):
            # The other keys are those of `image`, and below `tests` those of `tests`.
            for key in ("nodes", "tests"):
                spec = shape.value.keys[key]
                yield f"{prefix}.NAME.{key}", spec.text + (" **Required.**" if spec.required else "")
            assert shape.value.keys.keys() - {"tests"} == keys_of(ImageConfig).keys() - {"builder"}
        case Table():
            for key, special in shape.special.items():
                if special.text:
                    yield f"{prefix}.{key}", special.text
                yield from rows(special.shape, f"{prefix}.{key}")
            yield from rows(shape.value, f"{prefix}.NAME")
        case Items():
            yield from rows(shape.item, f"{prefix}.N")
        case Either():
            for part in (shape.items, shape.keys):
                if part is not None and part is not JOB:
                    yield from rows(part, prefix)
        case Variants():
            for record in (*shape.records.values(), shape.untyped, shape.marker and shape.marker[1]):
                if record is not None:
                    yield from rows(record, prefix)


def merged(shape: Shape) -> list[str]:
    """The rows as lines of a table; keys of several variants are one row."""
    found: dict[str, list[str]] = {}
    for name, text in rows(shape):
        if text not in (texts := found.setdefault(name, [])):
            texts.append(text)
    lines = []
    for name, texts in found.items():
        if len(texts) > 1 and name.endswith(".type"):
            words = [text.removesuffix(" **Required.**").rstrip(".") for text in texts]
            text = ", ".join(words) + "." + (" **Required.**" if "**Required.**" in texts[0] else "")
        else:
            text = " ".join(texts)
        lines.append(f"| `{name}` | {text} |")
    return lines


@pytest.mark.parametrize(("title", "shape"), [("aml-train.yml", DOCUMENT), ("the job", JOB)])
def test_the_documentation_lists_every_key(title: str, shape: Record) -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    section = re.split(r"(?m)^## ", text.partition(f"\n## Keys of {title}\n")[2])[0]
    assert [line for line in section.splitlines() if line.startswith("| `")] == merged(shape)
