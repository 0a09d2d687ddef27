"""The gate: metric rules and the decision over them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.gate.baseline import EarlierBaseline as EarlierBaseline
    from aml_train.gate.baseline import FoundBaseline as FoundBaseline
    from aml_train.gate.baseline import RunBaseline as RunBaseline
    from aml_train.gate.baseline import ValuesBaseline as ValuesBaseline
    from aml_train.gate.baseline import read_value as read_value
    from aml_train.gate.baseline import read_values as read_values
    from aml_train.gate.data_policy import decide_data as decide_data
    from aml_train.gate.data_policy import is_data_rule as is_data_rule
    from aml_train.gate.decide import Decision as Decision
    from aml_train.gate.decide import Evidence as Evidence
    from aml_train.gate.decide import GateResult as GateResult
    from aml_train.gate.decide import GateWord as GateWord
    from aml_train.gate.decide import RuleDecision as RuleDecision
    from aml_train.gate.decide import Verdict as Verdict
    from aml_train.gate.decide import decide_gate as decide_gate
    from aml_train.gate.decide import needs_baseline as needs_baseline
    from aml_train.gate.history import MetricPoint as MetricPoint
    from aml_train.gate.history import aggregate as aggregate
    from aml_train.gate.history import last_value as last_value
    from aml_train.gate.history import late_text as late_text
    from aml_train.gate.history import series_of as series_of
    from aml_train.gate.history import written_after as written_after
    from aml_train.gate.logged import LIST as LIST
    from aml_train.gate.logged import NUMBERS as NUMBERS
    from aml_train.gate.logged import SCALAR as SCALAR
    from aml_train.gate.logged import TABLE as TABLE
    from aml_train.gate.logged import Logged as Logged
    from aml_train.gate.logged import LoggedRow as LoggedRow
    from aml_train.gate.logged import LoggedSet as LoggedSet
    from aml_train.gate.logged import columns_of as columns_of
    from aml_train.gate.logged import in_order as in_order
    from aml_train.gate.logged import may_mean as may_mean
    from aml_train.gate.logged import problem_of as problem_of
    from aml_train.gate.logged_tables import MOST_BYTES as MOST_BYTES
    from aml_train.gate.logged_tables import file_of as file_of
    from aml_train.gate.logged_tables import is_json as is_json
    from aml_train.gate.logged_tables import tables_of as tables_of
    from aml_train.gate.recompute import RecordedRule as RecordedRule
    from aml_train.gate.recompute import fault_of_rule as fault_of_rule
    from aml_train.gate.recompute import read_recorded as read_recorded
    from aml_train.gate.recompute import word_of as word_of
    from aml_train.gate.rules import DataPolicy as DataPolicy
    from aml_train.gate.rules import Policies as Policies
    from aml_train.gate.rules import Rule as Rule
    from aml_train.gate.rules import parse_rule as parse_rule

_MODULES = {
    "EarlierBaseline": "baseline",
    "FoundBaseline": "baseline",
    "RunBaseline": "baseline",
    "ValuesBaseline": "baseline",
    "read_value": "baseline",
    "read_values": "baseline",
    "decide_data": "data_policy",
    "is_data_rule": "data_policy",
    "Decision": "decide",
    "Evidence": "decide",
    "GateResult": "decide",
    "GateWord": "decide",
    "RuleDecision": "decide",
    "Verdict": "decide",
    "decide_gate": "decide",
    "needs_baseline": "decide",
    "MetricPoint": "history",
    "aggregate": "history",
    "last_value": "history",
    "late_text": "history",
    "series_of": "history",
    "written_after": "history",
    "LIST": "logged",
    "Logged": "logged",
    "LoggedRow": "logged",
    "LoggedSet": "logged",
    "NUMBERS": "logged",
    "SCALAR": "logged",
    "TABLE": "logged",
    "columns_of": "logged",
    "in_order": "logged",
    "may_mean": "logged",
    "problem_of": "logged",
    "MOST_BYTES": "logged_tables",
    "file_of": "logged_tables",
    "is_json": "logged_tables",
    "tables_of": "logged_tables",
    "RecordedRule": "recompute",
    "fault_of_rule": "recompute",
    "read_recorded": "recompute",
    "word_of": "recompute",
    "DataPolicy": "rules",
    "Policies": "rules",
    "Rule": "rules",
    "parse_rule": "rules",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
