from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aml_train.core.references import ImageRef
from aml_train.image.spec import Tested
from aml_train.jobs.spec import JobTemplate, fingerprint, job_name, make_job, stem_of

DIGEST = "sha256:" + "1" * 64
TEMPLATE = JobTemplate(
    document={"command": "python train.py", "inputs": {"lr": 0.1}, "tags": {"team": "a"}, "name": "x"},
    directory=Path("/p"),
    code_digest="c",
    local_digests={"inputs.data": "d"},
    scope="local",
    stem="train",
    tags={"aml-train.commit": "abc"},
)
IMAGE = Tested(
    reference=ImageRef.parse(f"r.azurecr.io/x@{DIGEST}"),
    digest=DIGEST,
    address="a" * 64,
    how="built",
    record=None,
    compressed_bytes=None,
)


def test_the_name_is_the_same_for_the_same_work() -> None:
    again = replace(
        TEMPLATE,
        document={**TEMPLATE.document, "tags": {"team": "b"}, "display_name": "seen by people"},
        tags={"aml-train.commit": "another"},
    )
    assert job_name(TEMPLATE, {"": IMAGE}, 1) == job_name(again, {"": replace(IMAGE, how="found")}, 1)


@pytest.mark.parametrize(
    "changed",
    [
        replace(TEMPLATE, document={**TEMPLATE.document, "command": "python other.py"}),
        replace(TEMPLATE, document={**TEMPLATE.document, "inputs": {"lr": 0.2}}),
        replace(TEMPLATE, code_digest="other"),
        replace(TEMPLATE, local_digests={"inputs.data": "other"}),
        replace(TEMPLATE, scope="another workspace"),
    ],
)
def test_the_name_changes_with_what_the_job_computes(changed: JobTemplate) -> None:
    assert fingerprint(changed, {"": IMAGE}) != fingerprint(TEMPLATE, {"": IMAGE})


def test_the_name_changes_with_the_address_of_the_image_and_not_with_its_build() -> None:
    other = replace(IMAGE, address="b" * 64)
    names = {job_name(TEMPLATE, images, 1) for images in ({"": IMAGE}, {"": other}, {})}
    assert len(names) == 3
    assert job_name(TEMPLATE, {"": replace(IMAGE, digest="sha256:" + "2" * 64)}, 1) in names


def test_the_job_carries_its_image_and_tags() -> None:
    job = make_job(TEMPLATE, {"": IMAGE}, 3)
    assert job.name == job.document["name"]
    assert job.name.startswith("train-")
    assert job.name.endswith("-3")
    assert job.document["environment"] == {"image": f"r.azurecr.io/x@{DIGEST}"}
    tags = dict(job.document["tags"])
    properties = dict(job.document["properties"])
    assert properties == {"aml-train.fingerprint": job.fingerprint}
    assert tags == {
        "team": "a",
        "aml-train.commit": "abc",
        "aml-train.image": f"r.azurecr.io/x@{DIGEST}",
        "aml-train.image-digest": DIGEST,
        "aml-train.image-address": "a" * 64,
        "aml-train.tested": "no tests configured",
        "aml-train.fingerprint": job.fingerprint,
    }
    assert TEMPLATE.document["name"] == "x"


@pytest.mark.parametrize(
    ("text", "stem"),
    [
        ("Digits", "digits"),
        ("my experiment/v2", "my-experiment-v2"),
        ("--x__", "x"),
        ("été", "t"),
        ("日本", "job"),
        ("a" * 100, "a" * 40),
    ],
)
def test_the_stem_is_a_valid_beginning_of_a_name(text: str, stem: str) -> None:
    assert stem_of(text) == stem
