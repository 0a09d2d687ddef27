"""What a run says of the last job that it cannot attach to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from aml_train.core.errors import ServiceError
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.core.tags import TAG_FILES, TAG_PARTS, VALUE_LENGTH
from aml_train.image.spec import Given, JobImage, Tested
from aml_train.jobs.parts import difference, in_one_line, part_tags
from aml_train.jobs.spec import JobTemplate, job_parts, make_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.choose import why_submitted
from tests.support.fake_workspace import FakeService

DIGEST = "sha256:" + "1" * 64
IMAGE = Tested(
    reference=ImageRef.parse(f"r.azurecr.io/x@{DIGEST}"),
    digest=DIGEST,
    address="a" * 64,
    how="built",
    record=None,
    compressed_bytes=None,
)
DOCUMENT = {
    "code": ".",
    "command": "python train.py",
    "compute": "azureml:gpu",
    "inputs": {"lr": 0.1, "data": {"type": "uri_folder", "path": "data"}},
    "environment_variables": {"MODE": "fast"},
    "tags": {"team": "a"},
    "display_name": "seen by people",
}


def _template(tmp_path: Path, files: Mapping[str, str] | None = None, **changes: Any) -> JobTemplate:
    folder = tmp_path / f"code-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    for name, text in (files if files is not None else {"train.py": "1", "lib/m.py": "2"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    code = FileSet.collect_code(folder)
    document = {**DOCUMENT, **changes.pop("document", {})}
    values = {"local_digests": {"inputs.data": "d"}, "scope": "local", "stem": "train", **changes}
    return JobTemplate(document=document, directory=folder, code=code, code_digest=code.digest(), **values)


def _marks_of(template: JobTemplate, image: JobImage = IMAGE) -> dict[str, str]:
    properties: dict[str, str] = make_job(template, image, 1).document["properties"]
    return properties


def _difference(before: JobTemplate, now: JobTemplate, image: JobImage = IMAGE) -> list[str] | None:
    assert now.code is not None
    return difference(_marks_of(before), job_parts(now, image), now.code.contents)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"document": {"tags": {"team": "b"}, "display_name": "x", "name": "y"}}, []),
        ({"document": {"command": "python other.py"}}, ["`command`"]),
        ({"document": {"inputs": {"lr": 0.2, "data": DOCUMENT["inputs"]["data"]}}}, ["the input lr"]),  # type: ignore[index]
        ({"document": {"inputs": {"data": DOCUMENT["inputs"]["data"]}}}, ["the input lr"]),  # type: ignore[index]
        ({"local_digests": {"inputs.data": "other"}}, ["the input data"]),
        ({"document": {"environment_variables": {"MODE": "slow", "N": "1"}}},
         ["the environment variable MODE", "the environment variable N"]),
        ({"document": {"environment_variables": {}}}, ["the environment variable MODE"]),
        ({"document": {"resources": {"instance_count": 2}}}, ["`resources`"]),
        ({"scope": "another"}, ["the workspace"]),
        ({"document": {"code": "./src"}}, ["`code`"]),
        ({"files": {"train.py": "9", "lib/new.py": "2"}}, ["lib/m.py (gone)", "lib/new.py (new)", "train.py"]),
        ({"runconfig": {"framework": "Python"}}, ["`framework` of the run configuration"]),
    ],
)  # fmt: skip
def test_what_differs(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    assert _difference(_template(tmp_path), _template(tmp_path, **changes)) == words


def test_another_image_differs(tmp_path: Path) -> None:
    template = _template(tmp_path)
    other = replace(IMAGE, address="2" * 64)
    assert _difference(template, template, other) == ["the image"]
    assert _difference(template, template, Given(environment="azureml:e:1")) == ["the image"]


def test_files_of_a_local_environment_differ(tmp_path: Path) -> None:
    before = _template(tmp_path, document={"environment": "file:env.yml"}, local_digests={"environment": "1"})
    now = replace(before, local_digests={"environment": "2"})
    assert _difference(before, now) == ["`environment`"]


def _marks(files: Mapping[str, str]) -> dict[str, str]:
    return {path: hashlib.sha256(f"{path} {text}".encode()).hexdigest() for path, text in files.items()}


def _file_tags(files: Mapping[str, str]) -> dict[str, str]:
    return part_tags({"code": "1"}, _marks(files), 10)


@pytest.mark.parametrize(
    ("count", "deep", "expected"),
    [
        (100, False, ["src/file-00007.py"]),
        (1500, True, ["src/part-007/"]),
        (5000, False, ["src/"]),
    ],
)
def test_many_files_are_summed_up_by_folder(count: int, deep: bool, expected: list[str]) -> None:
    names = [f"src/part-{n % 50:03}/file-{n:05}.py" if deep else f"src/file-{n:05}.py" for n in range(count)]
    files = dict.fromkeys(names, "1")
    tags = _file_tags(files)
    assert all(len(value) <= VALUE_LENGTH for value in tags.values())
    assert sum(name.startswith(TAG_FILES) for name in tags) <= 3
    assert difference(tags, {"code": "2"}, _marks({**files, names[7]: "2"})) == expected


def test_too_many_folders_leave_the_code_as_a_whole() -> None:
    files = {f"folder-{number:05}/x": "" for number in range(3000)}
    tags = _file_tags(files)
    assert list(tags) == [TAG_PARTS]
    assert difference(tags, {"code": "2"}, _marks({**files, "y": ""})) == ["the code"]


def test_many_settings_are_summed_up(tmp_path: Path) -> None:
    variables = {f"VARIABLE_{number:03}": "1" for number in range(200)}
    before = _template(tmp_path, document={"environment_variables": variables})
    now = _template(tmp_path, document={"environment_variables": {**variables, "VARIABLE_007": "2"}})
    assert len(_marks_of(before)[TAG_PARTS]) <= VALUE_LENGTH
    assert _difference(before, now) == ["the environment variables"]
    assert _difference(before, _template(tmp_path)) == ["the environment variables"]
    assert len(_difference(_template(tmp_path), before) or ()) == 201
    assert _difference(before, before) == []


def test_a_job_with_many_tags_keeps_them(tmp_path: Path) -> None:
    for count in range(30, 51):
        template = _template(tmp_path, document={"properties": {f"t{number}": "" for number in range(count)}})
        tags = _marks_of(template)
        own = [name for name in tags if name == TAG_PARTS or name.startswith(TAG_FILES)]
        rest = len(tags) - len(own)
        assert len(own) == max(0, min(2, 40 - rest))


@pytest.mark.parametrize("tags", [{}, {TAG_PARTS: ""}, {TAG_PARTS: "2;code=1"}, {TAG_PARTS: "something else"}])
def test_a_job_of_an_earlier_version(tmp_path: Path, tags: dict[str, str]) -> None:
    assert difference(tags, job_parts(_template(tmp_path), IMAGE), {}) is None


@given(value=some.text(max_size=200), files=some.text(max_size=200))
def test_tags_that_somebody_changed(value: str, files: str) -> None:
    parts = {"code": "1", "inputs.x": "2", "command": "3"}
    for prefix in ("", "1;", "1;0;"):
        tags = {TAG_PARTS: f"1;{value}", f"{TAG_FILES}1": prefix + files}
        found = difference(tags, parts, {"train.py": "1" * 64})
        assert found is not None
        assert "\n" not in in_one_line(found)


def _job(template: JobTemplate, number: int, status: JobStatus = JobStatus.COMPLETED, **tags: str) -> JobView:
    job = make_job(template, IMAGE, number)
    return JobView(
        name=job.name,
        status=status,
        tags={**job.document["tags"], **tags},
        properties=job.document["properties"],
    )


def test_the_line_that_a_run_prints(tmp_path: Path) -> None:
    before = _template(tmp_path)
    now = _template(tmp_path, {"train.py": "9", "lib/m.py": "2"}, document={"command": "python train.py -v"})
    service = FakeService()

    def line(found: JobView | None = None, *, fresh: bool = False) -> str:
        text = why_submitted(now, service, IMAGE, found, fresh=fresh)
        assert "\n" not in text
        return text

    assert line() == "Trains for the first time: there is no earlier job train-… among the last of this workspace."
    foreign = _job(replace(before, stem="train-other"), 1)
    service.jobs[foreign.name] = foreign
    assert line().startswith("Trains for the first time")
    last = _job(before, 1)
    service.jobs[last.name] = last
    assert line() == f"Trains, as these differ from the last job, {last.name}: train.py, `command`."
    failed = _job(now, 1, JobStatus.FAILED)
    assert line(failed) == f"Trains again after {failed.name}, which is Failed."
    done = _job(now, 1)
    assert (
        line(done, fresh=True)
        == f"Trains again, as --fresh says: nothing differs from {done.name}, which is Completed."
    )
    service.jobs[last.name] = replace(last, properties={})
    assert line().endswith(f"{last.name} is the last one; its properties do not say what differs.")
    service.jobs[last.name] = replace(done, name=last.name)
    assert line().endswith(f"Its difference from the last one, {last.name}, is not recorded.")


def test_a_service_that_does_not_answer_holds_nothing_up(tmp_path: Path) -> None:
    class Away(FakeService):
        def tagged_jobs(self, tag: str) -> Any:
            raise ServiceError("AzureML answered 503")

    text = why_submitted(_template(tmp_path), Away(), IMAGE, None, fresh=False)
    assert text.endswith("The difference from the last one is not known: AzureML answered 503")


def test_long_differences_are_one_short_line() -> None:
    assert in_one_line([f"{'x' * 300}{number}\n" for number in range(9)]).endswith(" and 5 more")
    assert len(in_one_line(["y" * 300] * 9)) < 500
