import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from aml_train.azure.sdk_v2 import component_files
from aml_train.cli.run import locked
from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.core.errors import InvalidError
from aml_train.core.references import ImageRef
from aml_train.jobs.composed import ChildView
from aml_train.jobs.spec import JobTemplate, NodesImage, TargetNames, fingerprint, make_job
from aml_train.jobs.states import JobStatus
from aml_train.pipeline.plan import PlannedImage
from aml_train.pipeline.plan_graph import job_document
from aml_train.pipeline.resolve import local_digests
from tests.support.memory_graphs import GraphService
from tests.unit.pipeline.test_run import NAMES, OURS, SPEC, TESTED, image_named, make_plan, run

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
    document, notices = job_document(config, named(None))
    assert document["jobs"]["train"]["component"]["environment"]["conda_file"] == "components/conda.yml"
    assert notices == ["Not in the image, and not tested: train, score, report."]


@pytest.mark.parametrize(
    ("nodes", "names"), [("all", ["prep", "train", "report"]), ("[prep, train]", ["prep", "train"])]
)
def test_named_nodes_run_in_the_image_whatever_they_name(tmp_path: Path, nodes: str, names: list[str]) -> None:
    config = configured(tmp_path, f", nodes: {nodes}")
    assert [node.name for node in config.nodes_in_image] == names
    document, notices = job_document(config, named(None))
    assert "environment" not in document["jobs"]["train"]["component"]
    assert "environment" in config.job.document["jobs"]["train"]["component"]
    assert notices[0].startswith("The image replaces the environment of train")


def test_the_compute_of_the_target_replaces_that_of_the_nodes(tmp_path: Path) -> None:
    document, notices = job_document(configured(tmp_path, ""), named("cpu-cluster"))
    assert document["settings"]["default_compute"] == "azureml:cpu-cluster"
    assert not any("compute" in node for node in document["jobs"].values())
    assert (
        notices[0]
        == "The target local runs the pipeline on cpu-cluster instead of azureml:big, azureml:gpu, azureml:small."
    )


def test_the_image_is_put_where_its_nodes_are(tmp_path: Path) -> None:
    config = configured(tmp_path, ", nodes: [prep, train]")
    document, _ = job_document(config, NAMES)
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
    jobs = make_job(template, {"": TESTED}, 1).document["jobs"]
    image = {"image": str(TESTED.reference)}
    assert (jobs["prep"]["environment"], jobs["train"]["component"]["environment"]) == (image, image)
    assert jobs["report"]["environment"] == "azureml:report:1"
    other = replace(template, local_digests={"jobs.train.component.code": "2"})
    fewer = replace(template, places=template.places[:1])
    assert len({fingerprint(one, {"": TESTED}) for one in (template, other, fewer)}) == 3


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


IMAGES = """\
image: {base: 'python:3.11'}
images:
  train: {base: 'python:3.12', nodes: [train], tests: {command: pytest}}
"""


def with_images(folder: Path) -> Config:
    configured(folder, "")
    (folder / "aml-train.yml").write_text(f"job: pipeline.yml\n{IMAGES}")
    return load_config(None, directory=folder)


def test_a_node_of_another_image_loses_its_environment(tmp_path: Path) -> None:
    config = with_images(tmp_path)
    assert [node.name for node in config.nodes_in_image] == ["prep"]
    assert [node.name for node in config.nodes_in(config.images[0])] == ["train"]
    document, notices = job_document(config, named(None))
    assert "environment" not in document["jobs"]["train"]["component"]
    assert notices == [
        "The image replaces the environment of train.",
        "Not in the image, and not tested: score, report.",
    ]


def test_each_node_gets_the_digest_of_its_image(tmp_path: Path) -> None:
    config = with_images(tmp_path)
    document, _ = job_document(config, NAMES)
    (node,) = config.nodes_in(config.images[0])
    template = JobTemplate(
        document=document,
        directory=tmp_path,
        code_digest=None,
        scope="local",
        stem="graph",
        places=tuple(one.place for one in config.nodes_in_image),
        images=(NodesImage(name="train", nodes=(node,)),),
    )
    other = replace(TESTED, digest="sha256:" + "e" * 64, reference=ImageRef.parse("r.io/train@sha256:" + "e" * 64))
    images = {"": TESTED, "train": other}
    job = make_job(template, images, 1)
    assert job.document["jobs"]["prep"]["environment"] == {"image": str(TESTED.reference)}
    assert job.document["jobs"]["train"]["component"]["environment"] == {"image": str(other.reference)}
    tag = json.loads(job.document["tags"]["aml-train.image.train"])
    assert (tag["image"], tag["nodes"]) == (str(other.reference), ["train"])
    assert job.document["tags"]["aml-train.image-digest"] == TESTED.digest
    again = {**images, "train": replace(other, address="f" * 64)}
    assert fingerprint(template, images) != fingerprint(template, again)


def test_each_image_is_built_and_tested_and_the_run_says_so(tmp_path: Path) -> None:
    config = with_images(tmp_path)
    nodes = config.nodes_in(config.images[0])
    other = PlannedImage(spec=replace(SPEC, name="train"), tests=None, nodes=nodes)
    template = make_plan().job
    template = replace(
        template,
        document={**config.job.document, "type": "pipeline"},
        nodes=config.job.nodes,
        places=tuple(one.place for one in config.nodes_in_image),
        images=(NodesImage(name="train", nodes=nodes),),
    )
    ran = [ChildView(name=f"run-{one.name}", node=one.name, status=JobStatus.COMPLETED) for one in config.job.nodes]
    service = GraphService(parts={"": ran})
    plan = make_plan(job=template, images=(OURS, other), model=None)
    outcome, _ = run(plan, service)
    assert outcome.status == "passed", outcome.message
    assert outcome.facts()["image"] == str(TESTED.reference)
    images = outcome.facts()["images"]
    assert isinstance(images, dict)
    assert images["train"]["digest"] == image_named("train").digest
    (job,) = service.submitted
    assert job.document["jobs"]["train"]["component"]["environment"] == {"image": images["train"]["image"]}
    for attach in (False, True):
        assert run(plan, service, attach=attach)[0].attached
    assert len(service.submitted) == 1


def test_a_lock_file_is_of_all_images() -> None:
    images = [PlannedImage(spec=SPEC, tests=None, packages=one) for one in ({"b": "2"}, {"a": "1", "b": "2"})]
    assert locked(images) == {"a": "1", "b": "2"}
    with pytest.raises(InvalidError, match="one needs b 2, another 3"):
        locked([*images, PlannedImage(spec=SPEC, tests=None, packages={"b": "3"})])
