from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from aml_train.azure.components import component_files
from aml_train.config import Config, load_config
from aml_train.jobs.spec import JobTemplate, TargetNames, fingerprint, make_job
from aml_train.pipeline.plan_graph import graph_document, graph_lines, graph_nodes
from aml_train.pipeline.resolve import local_digests
from tests.unit.pipeline.test_run import NAMES, TESTED

PIPELINE = """\
type: pipeline
settings: {default_compute: azureml:big}
jobs:
  prep:
    command: prep ${{outputs.clean}}
    outputs: {clean: {type: uri_folder}}
  train:
    component: components/train.yml
    inputs: {data: "${{parent.jobs.prep.outputs.clean}}"}
    compute: azureml:gpu
  score:
    component: azureml:score:3
  report:
    command: report
    environment: azureml:report:1
    compute: azureml:small
"""
TRAIN = """\
type: command
command: train ${{inputs.data}}
code: ../src
environment: {image: base, conda_file: conda.yml}
inputs: {data: {type: uri_folder}}
"""


def configured(folder: Path, image: str) -> Config:
    (folder / "components").mkdir()
    (folder / "src").mkdir()
    (folder / "src/train.py").write_text("")
    (folder / "components/train.yml").write_text(TRAIN)
    (folder / "components/conda.yml").write_text("")
    (folder / "pipeline.yml").write_text(PIPELINE)
    (folder / "aml-train.yml").write_text(f"job: pipeline.yml\nimage: {{base: 'python:3.11'{image}}}\n")
    return load_config(None, directory=folder)


def named(compute: str | None) -> TargetNames:
    return TargetNames(
        target="local",
        description="",
        scope="",
        registry_for_jobs="",
        registry_for_engine="",
        compute=compute,
    )


def test_nodes_without_an_environment_run_in_the_image(tmp_path: Path) -> None:
    config = configured(tmp_path, "")
    assert [node.name for node in config.nodes_in_image] == ["prep"]
    document, notices = graph_document(config, named(None))
    assert document["jobs"]["train"]["component"]["environment"]["conda_file"] == "components/conda.yml"
    assert notices == ["Not in the image, and not tested: train, score, report."]


@pytest.mark.parametrize(
    ("nodes", "names"), [("all", ["prep", "train", "report"]), ("[prep, train]", ["prep", "train"])]
)
def test_named_nodes_run_in_the_image_whatever_they_name(tmp_path: Path, nodes: str, names: list[str]) -> None:
    config = configured(tmp_path, f", nodes: {nodes}")
    assert [node.name for node in config.nodes_in_image] == names
    document, notices = graph_document(config, named(None))
    assert "environment" not in document["jobs"]["train"]["component"]
    assert "environment" in config.job.document["jobs"]["train"]["component"]
    assert notices[0].startswith("The image replaces the environment of train")


def test_the_compute_of_the_target_replaces_that_of_the_nodes(tmp_path: Path) -> None:
    document, notices = graph_document(configured(tmp_path, ""), named("cpu-cluster"))
    assert document["settings"]["default_compute"] == "azureml:cpu-cluster"
    assert not any("compute" in node for node in document["jobs"].values())
    assert notices[0] == "The target local runs the pipeline on cpu-cluster instead of big, gpu, small."


def test_each_node_is_drawn_with_its_image_and_needs(tmp_path: Path) -> None:
    config = configured(tmp_path, "")
    ours = config.nodes_in_image
    assert graph_lines(config.job.nodes, ours, "digits@sha256:1") == [
        "prep    digits@sha256:1",
        "train   given: (inline)  after prep",
        "score   given: azureml:score:3",
        "report  given: azureml:report:1",
    ]
    assert [(node.name, node.needs, node.environment) for node in graph_nodes(config.job.nodes, ours)][:2] == [
        ("prep", (), "image"),
        ("train", ("prep",), "given: (inline)"),
    ]


def test_the_image_is_put_where_its_nodes_are(tmp_path: Path) -> None:
    config = configured(tmp_path, ", nodes: [prep, train]")
    document, _ = graph_document(config, NAMES)
    template = JobTemplate(
        document=document,
        directory=tmp_path,
        code_digest=None,
        scope="",
        stem="graph",
        places=tuple(node.place for node in config.nodes_in_image),
        local_digests={"jobs.train.component.code": "1"},
        nodes=config.job.nodes,
    )
    jobs = make_job(template, TESTED, 1).document["jobs"]
    image = {"image": str(TESTED.reference)}
    assert (jobs["prep"]["environment"], jobs["train"]["component"]["environment"]) == (image, image)
    assert jobs["report"]["environment"] == "azureml:report:1"
    other = replace(template, local_digests={"jobs.train.component.code": "2"})
    fewer = replace(template, places=template.places[:1])
    assert len({fingerprint(one, TESTED) for one in (template, other, fewer)}) == 3


NESTED = """\
type: pipeline
settings: {default_compute: azureml:big}
jobs:
  sub:
    type: pipeline
    component: parts/sub.yml
  score:
    component: azureml:score:3
    inputs: {data: {type: uri_file, path: rows.csv}}
"""
SUB = """\
type: pipeline
jobs:
  fit:
    command: fit ${{inputs.data}}
    environment: {image: base, conda_file: conda.yml}
    inputs: {data: {type: uri_file, path: ../rows.csv}}
"""


def test_paths_of_inner_nodes_start_from_the_jobs_folder_and_count(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/sub.yml").write_text(SUB)
    (tmp_path / "parts/conda.yml").write_text("name: x\n")
    (tmp_path / "rows.csv").write_text("1\n")
    (tmp_path / "pipeline.yml").write_text(NESTED)
    (tmp_path / "aml-train.yml").write_text("job: pipeline.yml\n")
    config = load_config(None, directory=tmp_path)
    fit = config.job.document["jobs"]["sub"]["component"]["jobs"]["fit"]
    assert (fit["inputs"]["data"]["path"], fit["environment"]["conda_file"]) == ("rows.csv", "parts/conda.yml")
    digests = local_digests(config.job, tmp_path)
    assert sorted(digests) == [
        "jobs.score.inputs.data",
        "jobs.sub.component.jobs.fit.environment.conda_file",
        "jobs.sub.component.jobs.fit.inputs.data",
    ]
    assert digests["jobs.score.inputs.data"] == digests["jobs.sub.component.jobs.fit.inputs.data"]
    with component_files(config.job.document, tmp_path) as written:
        node = yaml.safe_load(Path(written["jobs"]["sub"]["component"]).read_text())["jobs"]["fit"]
    assert node["inputs"]["data"]["path"] == str(tmp_path / "rows.csv")
    assert node["environment"]["conda_file"] == str(tmp_path / "parts/conda.yml")
