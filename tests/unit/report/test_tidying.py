"""Every text of a report is masked and cut."""

from __future__ import annotations

import msgspec

from aml_train.report import values as report
from aml_train.report.convert import tidy
from tests.unit.report.test_html import EVERYTHING
from tests.unit.report.test_values import small


def test_nothing_changes_where_nothing_is_secret_or_long() -> None:
    assert tidy(EVERYTHING, lambda text: text) == EVERYTHING


def test_every_text_is_masked() -> None:
    masked = report.encode(tidy(EVERYTHING, lambda text: text.replace("digits", "***")))
    assert b"digits" in report.encode(EVERYTHING)
    assert b"digits" not in masked


def test_long_texts_are_cut_so_that_the_report_can_be_read_again() -> None:
    long = small(
        title="t" * 2_000,
        message="m" * 30_000,
        metrics={"n" * 2_000: "NaN"},
        data={"d" * 2_000: "v" * 30_000},
        job=report.Job(name="j" * 2_000, url="https://x/" + "u" * 5_000),
        lineage=report.Step(kind="k", name="n" * 2_000, state="verified", parts=(report.Step(kind="k" * 2_000, name="", state=""),)),
        tables=(report.Table(name="t", kind="table", rows=(("c" * 30_000,),)),),
    )  # fmt: skip
    tidied = tidy(long, lambda text: text)
    assert report.decode(report.encode(tidied), origin="report.json") == tidied
    assert len(tidied.title) == 1_000
    assert tidied.job is not None
    assert tidied.job.url == ""
    assert msgspec.structs.asdict(tidied)["message"].endswith("…")
