"""Each way that a run can end, with everything real: engine, registry, tests, jobs, SDK. See docs/architecture.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Local

QUICK_JOB = """\
experiment_name: {name}
code: src
command: {command}
"""


def quick(project: Path, name: str, command: str) -> None:
    """Let the project's job be *command*, without gate and model."""
    (project / "job.yml").write_text(QUICK_JOB.format(name=name, command=command))
    config = project / "aml-train.yml"
    text = config.read_text()
    config.write_text(text[: text.index("gate:")])


def test_a_failing_unit_test_ends_with_4_before_anything_is_submitted(local: Local, digits: Path) -> None:
    (digits / "tests" / "test_broken.py").write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    ended = local.run(digits)
    assert ended.code == 4, ended.output
    assert "test_broken.py:2" in ended.output
    assert "test_sum" in ended.only("run-finished")["message"]
    assert not ended.of("job-submitted")
    assert ended.only("tests-finished")["failed"] == 1


def test_a_failing_job_ends_with_5_and_the_tail_of_its_log_and_has_no_secret_files(
    local: Local, digits: Path
) -> None:
    for name in (".git/config", ".env", "deep/id_rsa", "deep/kept.txt"):
        (digits / "src" / name).parent.mkdir(exist_ok=True)
        (digits / "src" / name).write_text("token")
    quick(digits, "failing", "find . -type f; echo reading data; python -c 'raise ValueError(\"no rows left\")'")
    ended = local.run(digits)
    assert ended.code == 5, ended.output
    message = ended.only("run-finished")["message"]
    assert "reading data" in message
    assert "ValueError: no rows left" in message
    listed = [line["text"] for line in ended.of("log-line") if line["source"] == "job"]
    assert {"./train.py", "./deep/kept.txt"} <= {*listed}
    assert not [line for line in listed if ".git/" in line or ".env" in line or "id_rsa" in line]


@pytest.mark.full
def test_the_gate_compares_with_a_model_that_was_registered_before(local: Local, digits: Path) -> None:
    config = digits / "aml-train.yml"
    text = config.read_text()
    baseline = 'baseline: {model: compared, tag: "channel=main"}\n'
    rules = (
        'gate: {val/accuracy: [">= baseline - 1%", "steps >= 2"], val/loss: "min <= last baseline + 0.1", '
        "final: {rules: '<= metric(val/accuracy)', file: outputs/model/metrics.json, pointer: /val_accuracy}}\n"
    )
    model = "model: {name: compared, path: outputs/model, tags: {channel: main}}\n"
    start = text[: text.index("gate:")]

    config.write_text(f"{start}{rules}{baseline}{model}")
    ended = local.run(digits)
    assert ended.code == 6, ended.output
    message = ended.only("run-finished")["message"]
    assert "the model compared with tag channel=main is missing (there is no such model)" in message
    assert not ended.of("job-submitted")

    config.write_text(f"{start}{rules}{baseline.replace('}', ', bootstrap: true}')}{model}")
    first = local.run(digits, "--fresh")
    assert first.code == 0, first.output
    assert [rule["verdict"] for rule in first.of("rule-verdict")] == ["skipped", "met", "skipped", "met"]
    assert first.only("model-registered")["version"] == "1"

    again = local.run(digits, "--fresh")
    assert again.code == 0, again.output
    reasons = [rule["reason"] for rule in again.of("rule-verdict")]
    assert "(that of compared version 1 (tag channel=main), 0.9" in reasons[0]
    assert reasons[2].startswith("min(val/loss) = ")
    assert again.only("model-registered")["version"] == "2"

    config.write_text(f"{start}{rules.replace('- 1%', '+ 1%')}{baseline}{model}")
    missed = local.run(digits)
    assert missed.code == 6, missed.output
    assert "(that of compared version 2 (tag channel=main), 0.9" in missed.only("run-finished")["message"]
