"""Sweep jobs from their submission to their end; the executor of their trials is played."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_emulator.domain.jobs.sweeps.runs import Policy
from aml_emulator.domain.jobs.sweeps.search import read_search
from tests.unit.emulator.parts import WS
from tests.unit.emulator.played_sweeps import Sweeps


def test_trials_begin_as_others_end_and_the_best_is_recorded(sweeps: Sweeps) -> None:
    answer = sweeps.put("s")
    assert answer.status == 201, answer.json
    assert sweeps.begun() == ["s_0", "s_1"]
    sweeps.log("s_0", 0.5, 0.9, 0.7)
    sweeps.end("s_0")
    assert sweeps.begun() == ["s_0", "s_1", "s_2"]
    sweeps.log("s_1", 0.95)
    sweeps.end("s_1", "Failed")
    sweeps.log("s_2", math.nan, 0.8)
    sweeps.end("s_2")
    assert sweeps.shown("s")["status"] == "Running"
    sweeps.end("s_3")
    shown = sweeps.shown("s")
    assert (shown["status"], shown["jobType"]) == ("Completed", "Sweep")
    assert (shown["properties"]["best_child_run_id"], shown["properties"]["score"]) == ("s_0", "0.9")
    assert json.loads(shown["properties"]["primary_metric_config"])["name"] == shown["objective"]["primaryMetric"]


def test_a_sweep_has_the_services_own_tags(sweeps: Sweeps) -> None:
    # Recorded in March 2026: sweep_job/e2etests, test_sweep_job_submit.
    policy = {
        "delayEvaluation": 200,
        "evaluationInterval": 100,
        "policyType": "TruncationSelection",
        "truncationPercentage": 40,
    }
    space = {"lr": ["uniform", [0.001, 0.1]], "k": ["choice", [[2, 5, 7]]]}
    limits = {"jobLimitsType": "Sweep", "timeout": "PT1M", "maxConcurrentTrials": 10, "maxTotalTrials": 1}
    sweeps.put("s", tags={"mine": "yes"}, earlyTermination=policy, searchSpace=space, limits=limits)
    tags, prefix = sweeps.shown("s")["tags"], "_aml_system_"
    assert tags.pop("mine") == "yes"
    assert {key.removeprefix(prefix): json.loads(value) for key, value in tags.items()} == {
        "max_concurrent_jobs": 10,
        "max_total_jobs": 1,
        "max_duration_minutes": 1,
        "policy_config": {
            "name": "TruncationSelection",
            "properties": {"delay_evaluation": 200, "evaluation_interval": 100, "truncation_percentage": 40},
        },
        "generator_config": {
            "name": "RANDOM",
            "parameter_space": space,
            "properties": {"rule": "Random", "logbase": None, "seed": None},
        },
        "primary_metric_config": {"name": "accuracy", "goal": "maximize"},
    }
    assert tags[f"{prefix}primary_metric_config"] == '{"name":"accuracy","goal":"maximize"}'
    assert sweeps.shown("s")["properties"]["runTemplate"] == "HyperDrive"
    sweeps.put("plain", samplingAlgorithm={"samplingAlgorithmType": "Grid"}, searchSpace={"k": ["choice", ["a"]]})
    shown = sweeps.shown("plain")["tags"]
    assert shown[f"{prefix}policy_config"] == '{"name":"Default","properties":{}}'
    assert json.loads(shown[f"{prefix}generator_config"])["properties"] == {}


def test_a_trial_has_its_values_in_its_command(sweeps: Sweeps) -> None:
    sweeps.put("s")
    for number in (0, 1):
        run = sweeps.store.runs.require(f"s_{number}")
        values = json.loads(run.properties["hyperparameters"])
        assert 0.1 <= values["lr"] <= 0.2
        assert run.job is not None
        assert run.job["command"] == f"python train.py --lr {values['lr']} --k {values['k']}"
        assert (run.parent_id, run.experiment) == ("s", "search")
    assert sweeps.call("GET", f"{WS}/jobs/s_0").json["properties"] is None
    assert [job["name"] for job in sweeps.call("GET", f"{WS}/jobs").json["value"]] == ["s"]


def test_a_grid_has_every_combination_once(sweeps: Sweeps) -> None:
    space = {"lr": ["choice", [[1, 2, 3]]], "k": ["choice", [["a", "b"]]]}
    sweeps.put("s", samplingAlgorithm={"samplingAlgorithmType": "Grid"}, searchSpace=space, limits={})
    assert len(sweeps.begun()) == 6
    seen = {sweeps.store.runs.require(trial).properties["hyperparameters"] for trial in sweeps.begun()}
    assert len(seen) == 6
    for trial in sweeps.begun():
        sweeps.end(trial)
    assert sweeps.shown("s")["status"] == "Completed"
    assert "best_child_run_id" not in sweeps.shown("s")["properties"]


def test_first_trials_that_fail_end_the_sweep(sweeps: Sweeps) -> None:
    sweeps.put("s", limits={"maxTotalTrials": 100, "maxConcurrentTrials": 4})
    for number in (0, 1, 2):
        sweeps.end(f"s_{number}", "Failed")
    begun = len(sweeps.begun())
    assert begun < 10
    active = [run for run in sweeps.store.runs.children("s") if not run.terminal]
    assert {run.status for run in active} == {"CancelRequested"}
    for run in active:
        sweeps.end(run.id, "Canceled")
    assert sweeps.shown("s")["status"] == "Failed"
    assert len(sweeps.begun()) == begun


def test_a_cancelled_sweep_begins_no_more_trials(sweeps: Sweeps) -> None:
    sweeps.put("s")
    assert sweeps.call("POST", f"{WS}/jobs/s/cancel").status == 202
    sweeps.jobs.settle()
    sweeps.end("s_0", "Canceled")
    sweeps.end("s_1", "Canceled")
    assert sweeps.shown("s")["status"] == "Canceled"
    assert sweeps.begun() == ["s_0", "s_1"]


def test_a_restart_begins_no_trial_twice(sweeps: Sweeps) -> None:
    sweeps.put("s")
    sweeps.store.runs.finish("s_0", "Completed")
    sweeps.jobs.resume()
    sweeps.jobs.settle()
    assert len(sweeps.store.runs.children("s")) == 3


@pytest.mark.parametrize(
    ("policy", "ended"),
    [
        # The documentation's example: best 0.8, a slack factor of 0.2; what is below 0.66 ends.
        (Policy(kind="bandit", interval=1, delay=0, slack_factor=0.2), ["low"]),
        (Policy(kind="bandit", interval=1, delay=0, slack_amount=0.05), ["middle", "low"]),
        (Policy(kind="bandit", interval=1, delay=5, slack_factor=0.2), []),
        (Policy(kind="bandit", interval=3, delay=0, slack_factor=0.2), []),
        (Policy(kind="medianstopping", interval=1, delay=0), ["low"]),
        (Policy(kind="truncationselection", interval=1, delay=0, percentage=40), ["low"]),
    ],
)
def test_policies_end_the_trials_that_the_documentation_says(policy: Policy, ended: list[str]) -> None:
    histories = {"high": [0.7, 0.8], "middle": [0.7, 0.7], "low": [0.6, 0.6]}
    assert policy.ended(histories, list(histories), maximize=True) == ended
    mirrored = {name: [1.5 - value for value in values] for name, values in histories.items()}
    if policy.slack_factor == 0:
        assert policy.ended(mirrored, list(histories), maximize=False) == ended


_SPACE = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}", fullmatch=True),
    st.one_of(
        st.lists(st.integers() | st.text(max_size=5), min_size=1, max_size=4).map(lambda items: ["choice", [items]]),
        st.tuples(st.floats(-5, 5), st.floats(0, 5)).map(lambda pair: ["uniform", [pair[0], pair[0] + pair[1]]]),
        st.tuples(st.floats(-5, 5), st.floats(0, 5)).map(lambda pair: ["normal", list(pair)]),
        st.integers(1, 99).map(lambda upper: ["randint", [upper]]),
        st.floats(0.1, 9).map(lambda q: ["quniform", [0, 10, q]]),
    ),
    min_size=1,
    max_size=4,
)


@given(_SPACE, st.integers(0, 999))
def test_a_trials_number_decides_its_values(space: dict[str, Any], number: int) -> None:
    search = read_search({"searchSpace": space}, seed="s")
    values = search.values(number)
    assert values == read_search({"searchSpace": space}, seed="s").values(number)
    assert values.keys() == space.keys()
    for name, (kind, arguments) in space.items():
        value = values[name]
        if kind == "choice":
            assert value in arguments[0]
        elif kind == "uniform":
            assert arguments[0] <= float(value) <= arguments[1]
        elif kind == "randint":
            assert int(value) in range(arguments[0])
        elif kind == "quniform":
            assert float(value) / arguments[2] == pytest.approx(round(float(value) / arguments[2]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"searchSpace": {}}, "no search space"),
        ({"searchSpace": {"lr": ["beta", [1]], "k": ["choice", [["a"]]]}}, "the distribution 'beta'"),
        ({"searchSpace": {"lr": ["uniform", [1]], "k": ["choice", [["a"]]]}}, "`uniform` has 2 numbers"),
        ({"searchSpace": {"lr": ["choice", [[]]], "k": ["choice", [["a"]]]}}, "nothing to choose from"),
        ({"samplingAlgorithm": {"samplingAlgorithmType": "Grid"}}, "a grid takes `choice` only"),
        ({"samplingAlgorithm": {"samplingAlgorithmType": "Bayesian"}}, "samplingAlgorithm of type 'bayesian'"),
        ({"samplingAlgorithm": {"samplingAlgorithmType": "Bayesian"}}, "Use the type random, with the rule sobol"),
        ({"samplingAlgorithm": {"samplingAlgorithmType": "Random", "rule": "Halton"}}, "rule 'halton'"),
        ({"samplingAlgorithm": {"samplingAlgorithmType": "Random", "logbase": "pi"}}, "a positive number or 'e'"),
        ({"searchSpace": {"lr": ["loguniform", [999, 9999]], "k": ["choice", [["a"]]]}}, "is too large"),
        ({"objective": {"goal": "Best", "primaryMetric": "x"}}, "Minimize or Maximize"),
        ({"objective": {"goal": "Minimize"}}, "names no metric"),
        ({"limits": {"maxTotalTrials": 1001}}, "from 1 to 1000"),
        ({"limits": {"timeout": "soon"}}, "limits.timeout is not a duration"),
        ({"earlyTermination": {"policyType": "Guess"}}, "earlyTermination of type 'Guess'"),
        ({"earlyTermination": {"policyType": "TruncationSelection"}}, "from 1 to 99"),
        ({"computeId": "elsewhere"}, "search: Compute Not Found for run ID : s"),
    ],
)
def test_what_is_no_sweep_is_refused(sweeps: Sweeps, change: dict[str, Any], says: str) -> None:
    answer = sweeps.put("s", **change)
    assert answer.status in (400, 404, 501), answer.json
    assert says in answer.json["error"]["message"], answer.json
    assert sweeps.store.runs.get("s") is None


def test_a_parameter_that_the_search_space_does_not_have_fails_the_sweep(sweeps: Sweeps) -> None:
    assert sweeps.put("s", searchSpace={"lr": ["choice", [[1]]]}).status == 201
    run = sweeps.store.runs.require("s")
    assert (run.status, sweeps.begun()) == ("Failed", [])
    assert "the search space has no 'k'" in str(run.error_message)


def test_the_rule_sobol_spreads_the_values_evenly() -> None:
    space = {name: ["uniform", [0, 1]] for name in "ab"}
    job = {"searchSpace": space, "samplingAlgorithm": {"samplingAlgorithmType": "Random", "rule": "sobol"}}
    points = [read_search(job, seed="s").values(number) for number in range(64)]
    assert len({(int(float(one["a"]) * 4), int(float(one["b"]) * 4)) for one in points}) == 16
