"""Records of promotions in a registry, and verdicts in the tags of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.models.promotion.record import Record, decode, encode
from aml_train.pipeline.branch_verdicts import read_verdict, verdict_tag
from fuzz.target import Target, as_bytes, require
from tests.unit.answers.test_other_answers import CHANGE

_MODEL = "m"


def seeds() -> Sequence[str]:
    """Return records, and a verdict."""
    record = Record(model=_MODEL).begun(CHANGE)
    return [
        encode(Record(model=_MODEL)).decode(),
        encode(record).decode(),
        encode(record.ended(finished_by="other")).decode(),
        '{"gate": "passed", "at": "2026-11-20", "commit": "a", "repository": "b", "configuration": "c"}',
        "",
    ]


def check(text: str) -> None:
    """Decode a record, and the same text as a verdict."""
    content = as_bytes(text)
    try:
        record = decode(content, _MODEL)
    except ValueError as error:
        require(str(error), "a refusal says nothing")
    else:
        again = encode(record)
        require(decode(again, _MODEL) == record, "a record is another one if it is written again")
        for stage in {change.stage for change in record.history}:
            for present in ("3", "none"):
                try:
                    record.predecessor(stage, present)
                except ValueError as error:
                    require(str(error), "a refusal says nothing")
    verdict = read_verdict({verdict_tag("main"): text}, "main")
    require(verdict is None or verdict.gate in ("passed", "failed", "none", "skipped"), "a verdict of another word")
    require(len(verdict_tag(text)) <= 256, "a tag is too long")


TARGET = Target(
    kind="text",
    reads=("aml_train.models.promotion.record", "aml_train.pipeline.branch_verdicts"),
    seeds=seeds,
    check=check,
    words=(
        '"format"',
        '"model"',
        '"revision"',
        '"pending"',
        '"history"',
        '"action"',
        '"rollback"',
        '"stage"',
        '"previous"',
        "null",
        "[]",
    ),
    mutate=lambda mutator, text: mutator.json(text),
)
