"""What a run says of the last job that it cannot attach to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from aml_train.core.errors import ServiceError
from aml_train.core.files import FileSet
from aml_train.jobs.identity import Identity, job_identity
from aml_train.jobs.spec import JobTemplate, make_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.submit import why_submitted
from tests.support.fake_workspace import FakeService

DOCUMENT = {"code": ".", "command": "python train.py", "compute": "azureml:gpu", "inputs": {"lr": 0.1}}


def template(tmp_path: Path, name: str, text: str, **changes: Any) -> JobTemplate:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "train.py").write_text(text)
    code = FileSet.collect_code(folder)
    document = {**DOCUMENT, **changes}
    return JobTemplate(
        document=document, directory=folder, code=code, code_digest=code.digest(), scope="local", stem="train"
    )


def put(service: FakeService, given: JobTemplate, status: JobStatus = JobStatus.COMPLETED) -> JobView:
    job = make_job(given, {}, 1)
    view = JobView(name=job.name, status=status, tags=job.document["tags"], properties=job.document["properties"])
    service.jobs[job.name], service.identities[job.name] = view, job_identity(job)
    return view


def test_the_line_that_a_run_prints(tmp_path: Path) -> None:
    before = template(tmp_path, "before", "1")
    now = template(tmp_path, "now", "2", command="python train.py -v")
    service = FakeService()

    def line(found: JobView | None = None, *, fresh: bool = False) -> str:
        text = why_submitted(now, service, {}, found, fresh=fresh)
        assert "\n" not in text
        return text

    assert line() == "Trains for the first time: there is no earlier job train-… among the last of this workspace."
    put(service, replace(before, stem="train-other"))
    assert line().startswith("Trains for the first time")
    last = put(service, before)
    assert line() == f"Trains, as these differ from the last job, {last.name}: `command`, the code."
    service.identities[last.name] = job_identity(make_job(now, {}, 1))
    assert line().endswith(f"What differs from the last one, {last.name}, is not known.")
    failed = replace(last, status=JobStatus.FAILED)
    assert line(failed) == f"Trains again after {failed.name}, which is Failed."
    assert (
        line(last, fresh=True)
        == f"Trains again, as --fresh says: nothing differs from {last.name}, which is Completed."
    )


def test_a_service_that_does_not_answer_holds_nothing_up(tmp_path: Path) -> None:
    class Away(FakeService):
        def identity(self, name: str, *, sdk: str = "v2", files: bool = False) -> Identity:
            raise ServiceError("AzureML answered 503")

    service = Away()
    put(service, template(tmp_path, "before", "1"))
    text = why_submitted(template(tmp_path, "now", "2"), service, {}, None, fresh=False)
    assert text.endswith("The difference from the last one is not known: AzureML answered 503")
