"""The record of an image's tests, which the registry keeps with the image.

A record says that certain tests passed in the image of a certain manifest digest. Its tag is computed from both, so that it is
found without a list. Registries answer a HEAD of an unknown tag with 404.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Final

import msgspec

from aml_train.core.answers import check_format, clean, decode
from aml_train.core.errors import DamagedError
from aml_train.core.events import TestsFinished
from aml_train.core.trust import PROPOSALS_SUFFIX
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import load_document, store_document
from aml_train.image.spec import TEST_FORMAT, ImageSpec, TestRecord, TestSpec

RECORD_TYPE: Final = "application/vnd.aml-train.test-record.v1+json"
_HINT: Final = "Remove that tag from the registry, or change the tests; they will then run again."


def record_tag(digest: str, key: str) -> str:
    """Return the tag of the record of the tests *key* in the image *digest*."""
    return f"test-{digest.removeprefix('sha256:')[:40]}-{key[:40]}"


def store_record(registry: Registry, repository: str, record: TestRecord) -> None:
    """Write *record* into *repository*."""
    content = json.dumps(dataclasses.asdict(record), sort_keys=True).encode()
    tag = record_tag(record.digest, record.key)
    store_document(registry, repository, tag, media_type=RECORD_TYPE, content=content, subject=record.digest)


def load_record(registry: Registry, repository: str, digest: str, key: str) -> TestRecord | None:
    """Return the record of the tests *key* in the image *digest*, or None.

    Raises:
        DamagedError: if there is something under the record's tag that is not that record; it never counts as tested.
    """
    tag = record_tag(digest, key)
    content = load_document(registry, repository, tag, media_type=RECORD_TYPE, noun="test record", hint=_HINT)
    if content is None:
        return None
    where = f"{registry.host}/{repository}:{tag}"
    try:
        record = parse_record(content)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"the test record {where} is damaged: {error}", hint=_HINT) from error
    if (record.digest, record.key) != (digest, key):
        raise DamagedError(f"the test record {where} is about another image or other tests", hint=_HINT)
    return record


def known_record(registry: Registry, spec: ImageSpec, tests: TestSpec, digest: str) -> TestRecord | None:
    """Return the record of *tests* that counts for this run, or None.

    A proposal believes its own group, and the protected branch about the images that this has released.

    Raises:
        DamagedError: as :func:`load_record`.
    """
    record = load_record(registry, spec.own_repository, digest, tests.key(digest))
    if record is None and spec.own_repository != spec.repository:
        key = dataclasses.replace(tests, group="").key(digest)
        record = load_record(registry, spec.repository, digest, key)
    return record


def places_of(repository: str) -> tuple[str, ...]:
    """Return *repository* and that of its proposals."""
    return tuple(dict.fromkeys((repository, f"{repository.removesuffix(PROPOSALS_SUFFIX)}{PROPOSALS_SUFFIX}")))


def any_record(registry: Registry, repository: str, digest: str, key: str) -> TestRecord | None:
    """Return a record for people: of *repository*, else of its proposals.

    Raises:
        DamagedError: as :func:`load_record`.
    """
    found = (load_record(registry, place, digest, key) for place in places_of(repository))
    return next((record for record in found if record is not None), None)


def parse_record(content: bytes) -> TestRecord:
    """Read a record's JSON.

    Raises:
        ValueError: if it is not a record of this format whose tests passed.
    """
    document = decode(content)
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - foreign input, not a caller's mistake
    check_format(document.get("format"), TEST_FORMAT)
    if unknown := sorted(document.keys() - {one.name for one in dataclasses.fields(TestRecord)}):
        raise ValueError(f"it has the unknown field {', '.join(unknown)}")
    if document.get("failed"):
        raise ValueError(f"it records {document['failed']} failed tests")
    texts = {key: clean(part) if isinstance(part, str) else part for key, part in document.items()}
    try:
        return msgspec.convert(texts, TestRecord)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def results_of(record: TestRecord) -> TestsFinished:
    """Return the results of an earlier run that *record* keeps."""
    return TestsFinished(
        passed=record.passed, failed=record.failed, skipped=record.skipped, seconds=record.seconds, cached=True
    )
