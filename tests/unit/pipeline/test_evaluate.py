"""The values that rules are decided over: metrics, values of files, the baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.sections.gate import BaselineConfig, GateRule, JsonValue
from aml_train.core.clock import Clock
from aml_train.core.errors import GateFailedError, InvalidError
from aml_train.gate.decide import GateResult
from aml_train.gate.logged import TABLE, Logged, LoggedRow
from aml_train.gate.rules import parse_rule
from aml_train.jobs.composed import ChildView
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.pipeline.evaluate import check_baseline, evaluate
from tests.support.fake_workspace import FakeClock, FakeService


def rule(text: str, metric: str = "m", source: JsonValue | None = None) -> GateRule:
    return GateRule(metric=metric, rule=parse_rule(text), where="f.yml:2", source=source)


def decide(service: FakeService, *rules: GateRule, baseline: BaselineConfig | None = None) -> GateResult:
    clock = FakeClock()
    return evaluate(service, "job", rules, baseline, clock=Clock(now=clock.now, sleep=clock.sleep), pause=0.1)


REPORT = JsonValue(file="outputs/report.json", pointer="/f1")


def test_a_value_of_a_file_counts_and_not_the_metric_of_that_name() -> None:
    service = FakeService(metrics={"m": [0.1], "other": [1.0]}, files={"outputs/report.json": b'{"f1": 0.9}'})
    gated = decide(service, rule(">= 0.9", source=REPORT), rule("< metric(m) + 1", "other"))
    assert [one.verdict for one in gated.decision.rules] == ["met", "met"]
    assert gated.metrics == {"m": 0.9, "other": 1.0}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "m is missing (the job wrote no outputs/report.json); wanted >= 0.9"),
        ({"outputs/report.json": b"{}"}, "m is missing (outputs/report.json: the document has no 'f1'); wanted"),
        ({"outputs/report.json": b'{"f1": "0.95"}'}, "(outputs/report.json: '/f1' is \"0.95\", not a number)"),
        ({"outputs/report.json": b"F1 = 1"}, "(outputs/report.json: it is not JSON"),
        ({"outputs/report.json": b" " * ((16 << 20) + 1)}, "outputs/report.json has more than 16777216 bytes"),
    ],
)
def test_a_file_without_the_value_fails_though_a_metric_has_the_name(files: dict[str, bytes], reason: str) -> None:
    service = FakeService(metrics={"m": [0.99]}, files=files)
    (decision,) = decide(service, rule(">= 0.9", source=REPORT)).decision.rules
    assert decision.verdict == "missed"
    assert reason in decision.reason


def row(name: str, *rows: dict[str, Any]) -> Logged:
    """Return rows that azureml-core logged."""
    columns = {key: "Double" for one in rows for key in one}
    return Logged(name=name, kind=TABLE, columns=columns, rows=[LoggedRow(data=one) for one in rows])


def test_a_column_of_what_azureml_core_logged_is_a_series() -> None:
    service = FakeService(metrics={"m": [0.1]}, logged_as={"job": [row("row", {"loss": 2.0}, {"loss": 0.5})]})
    gated = decide(service, rule("< 1", "row.loss"), rule("decreasing", "row.loss"), rule("< metric(row.loss)"))
    assert [one.verdict for one in gated.decision.rules] == ["met", "met", "met"]
    assert gated.metrics == {"m": 0.1, "row.loss": 0.5}
    assert [table.name for table in gated.tables] == ["row"]


def test_a_metric_counts_before_a_column_of_the_same_name_and_a_column_that_is_not_whole_not_at_all() -> None:
    columns = [row("row", {"loss": 0.1}), row("text", {"a": 1.0}, {"a": "2"})]
    service = FakeService(metrics={"row.loss": [5.0]}, logged_as={"job": columns})
    first, second, third = decide(
        service, rule("< 1", "row.loss"), rule("> 0", "text.a"), rule("> 0", "text.b")
    ).decision.rules
    assert (first.verdict, first.value) == ("missed", 5.0)
    assert second.verdict == third.verdict == "missed"
    assert second.reason == "text.a is missing (its value 2 of 2 is no number); wanted > 0"
    assert third.reason == "text.b is missing (of text: it is a table, whose columns are text.a); wanted > 0"


def test_the_child_run_is_named_that_alone_logged_a_metric() -> None:
    class Nested(FakeService):
        def children(self, name: str) -> list[ChildView]:
            return [ChildView(name="child", node="fold-1", status=JobStatus.COMPLETED)]

    service = Nested(metrics={"m": [0.1]}, history_of={"child": {"acc": [0.9]}})
    (decision,) = decide(service, rule(">= 0.9", "acc")).decision.rules
    assert decision.verdict == "missed"
    assert decision.reason == (
        "acc is missing (only the child run fold-1 logged it; log it in the job's own run); wanted >= 0.9"
    )


@pytest.mark.parametrize(
    ("keys", "title"),
    [
        ({"stage": "Production"}, "digits version 1 (stage Production)"),
        ({"stage": "staging"}, "digits version 2 (stage staging)"),
        ({"tag": "team"}, "digits version 2 (tag team)"),
        ({"tag": "team=a"}, "digits version 1 (tag team=a)"),
        ({"version": "2"}, "digits version 2 (version 2)"),
    ],
)
def test_which_model_is_the_baseline(keys: dict[str, Any], title: str) -> None:
    service = FakeService(metrics={"m": [0.5]})
    kept = {"aml-train.metric.m": "0.4"}
    service.registered += [
        ModelView(name="digits", version="1", path="p", tags={**kept, "aml-train.stage": "production", "team": "a"}),
        ModelView(name="digits", version="2", path="p", tags={**kept, "team": "b"}, stage="Staging"),
    ]
    baseline = replace(BaselineConfig(model="digits", where="f:1"), **keys)
    check_baseline(service, [rule(">= baseline")], baseline)
    (decision,) = decide(service, rule(">= baseline"), baseline=baseline).decision.rules
    assert decision.met
    assert f"(that of {title}, 0.4)" in decision.reason


def test_a_job_is_the_baseline() -> None:
    service = FakeService(metrics={"m": [0.5]}, history_of={"old": {"m": [0.9, 0.4]}})
    assert decide(service, rule(">= baseline"), baseline=BaselineConfig(job="old")).decision.met
    assert not decide(service, rule("max >= baseline"), baseline=BaselineConfig(job="old")).decision.met
    with pytest.raises(GateFailedError, match=r"there is no job gone, and m is compared with it \(f.yml:2\)"):
        check_baseline(service, [rule(">= baseline")], BaselineConfig(job="gone"))


def test_a_file_is_the_baseline(tmp_path: Path) -> None:
    service, file = FakeService(metrics={"m": [0.5]}), tmp_path / "b.json"
    baseline = BaselineConfig(file=file, where="f.yml:7")
    with pytest.raises(InvalidError, match=r"f.yml:7: the baseline .*b.json cannot be read: there is no such file"):
        check_baseline(service, [rule(">= baseline")], baseline)
    file.write_text("0.5")
    with pytest.raises(InvalidError, match="it is not an object of metrics"):
        check_baseline(service, [rule(">= baseline")], baseline)
    file.write_text('{"metrics": {"m": 0.5}}')
    assert decide(service, rule("== baseline"), baseline=baseline).decision.met
    file.unlink()
    first = BaselineConfig(file=file, bootstrap=True)
    assert [one.verdict for one in decide(service, rule("== baseline"), baseline=first).decision.rules] == ["skipped"]


def test_a_job_that_has_not_completed_is_no_baseline() -> None:
    service = FakeService(metrics={"m": [0.5]}, jobs={"old": JobView(name="old", status=JobStatus.RUNNING)})
    (decision,) = decide(service, rule(">= baseline"), baseline=BaselineConfig(job="old")).decision.rules
    assert decision.verdict == "missed"
    assert "the job old is Running, and only a completed one is a baseline" in decision.reason
    tags = {"aml-train.job": "old", "aml-train.metric.m": "0.6", "aml-train.metric.other": "high"}
    service.registered.append(ModelView(name="digits", version="1", path="p", tags=tags))
    config = BaselineConfig(model="digits", version="1")
    (decision,) = decide(service, rule(">= baseline"), baseline=config).decision.rules
    assert "wanted >= 0.6 (that of digits version 1 (version 1), 0.6)" in decision.reason
    (decision,) = decide(service, rule("< baseline", "other"), baseline=config).decision.rules
    assert decision.verdict == "missed"


@pytest.mark.parametrize("written", [{"properties": {"aml-train.job": "old"}}, {"job": "old"}])
def test_a_tag_that_was_edited_does_not_move_the_baseline(written: dict[str, Any]) -> None:
    service = FakeService(metrics={"m": [0.5]}, history_of={"old": {"m": [0.9]}, "weak": {"m": [0.1]}})
    service.registered.append(
        ModelView(name="digits", version="1", path="p", tags={"aml-train.job": "weak"}, **written)
    )
    (decision,) = decide(
        service, rule(">= baseline"), baseline=BaselineConfig(model="digits", version="1")
    ).decision.rules
    assert decision.verdict == "missed"
    assert "0.9" in decision.reason or "altered after its registration" in decision.reason


def test_the_baseline_stands_beside_the_job_and_different_data_are_told() -> None:
    digest, tags = "sha256:" + "1" * 64, {"aml-train.data.train": "digits:6", "aml-train.commit": "c" * 40}
    service = FakeService(metrics={"m": [0.5], "loss": [2.0]}, history_of={"old": {"m": [0.9, 0.4]}})
    service.jobs["job"] = JobView(
        name="job", status=JobStatus.COMPLETED, tags={"aml-train.data.train": "digits:7"}, parameters={"epochs": "3"}
    )
    tags |= {"aml-train.job": "old", "aml-train.image-digest": digest, "aml-train.metric.f1": "0.3"}
    service.registered.append(ModelView(name="digits", version="1", path="p", tags=tags))
    config = BaselineConfig(model="digits", version="1", where="f.yml:9")
    gated = decide(service, rule(">= baseline"), baseline=config)
    assert [(one.metric, one.verdict, one.where) for one in gated.decision.rules] == [
        ("m", "met", "f.yml:2"),
        ("data", "warned", "f.yml:9"),
    ]
    assert gated.comparison is not None
    right = gated.comparison.right
    assert (right.model, right.version, right.job, right.digest) == ("digits", "1", "old", digest)
    assert (right.commit, right.data) == ("c" * 40, {"train": "digits:6"})
    assert right.metrics == {"m": 0.4, "f1": 0.3}
    assert gated.comparison.left.metrics == {"m": 0.5, "loss": 2.0}
    assert gated.comparison.left.parameters == {"epochs": "3"}

    strict = replace(config, data="fail")
    assert not decide(service, baseline=strict).decision.met, "also where no rule asks for the baseline"
    with pytest.raises(GateFailedError, match=r"train is digits:7, and was digits:6 \(f.yml:9\)"):
        check_baseline(service, [], strict, data={"train": "digits:7"})
    check_baseline(service, [], strict, data={"train": "digits:6"})
    check_baseline(service, [], config, data={"train": "digits:7"})
    check_baseline(service, [], replace(strict, version="9", bootstrap=True), data={"train": "digits:7"})
    with pytest.raises(GateFailedError, match="there are no data to compare with"):
        check_baseline(service, [], replace(strict, version="9"), data={"train": "digits:7"})
