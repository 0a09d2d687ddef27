"""Every text of a report is masked and cut."""

from __future__ import annotations

from aml_train.core.tables import Table
from aml_train.models.lineage import LineageStep
from aml_train.report import values as report
from aml_train.report.values import tidy
from tests.unit.report.test_html import EVERYTHING
from tests.unit.report.test_values import small


def test_nothing_changes_where_nothing_is_secret_or_long() -> None:
    assert tidy(EVERYTHING, lambda text: text) == EVERYTHING


def test_every_text_is_masked() -> None:
    masked = report.encode(tidy(EVERYTHING, lambda text: text.replace("digits", "***")))
    assert b"digits" in report.encode(EVERYTHING)
    assert b"digits" not in masked


def test_long_texts_are_cut_and_halves_of_characters_replaced() -> None:
    long = small(
        title="t\ud800",
        message="m" * 30_000,
        data={"d" * 30_000: "v" * 30_000},
        lineage=LineageStep(kind="k", name="n" * 30_000, state="verified", parts=(LineageStep(kind="k", name="n" * 30_000, state="verified"),)),
        tables=(Table(name="t", kind="table", rows=(("c" * 30_000,),)),),
    )  # fmt: skip
    tidied = tidy(long, lambda text: text)
    assert report.decode(report.encode(tidied), origin="report.json") == tidied
    assert tidied.title == "t\ufffd"
    assert tidied.message == "m" * 19_999 + "…"
    assert len(report.encode(tidied)) < 130_000
