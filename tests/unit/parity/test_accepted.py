"""Reasons for differences: reviewed, and removed once they are stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.errors import InvalidError
from parity.__main__ import main
from parity.accepted import FILE, judge, read_accepted
from parity.differences import Difference
from parity.results import compared_by_operation, read_results, result_of, write_result
from tests.unit.parity.test_differences import line, recording

GOOD = {"step": "job*", "place": ".properties.a", "kind": "missing", "reason": "the local one has no such thing"}


def difference(**given: str) -> Difference:
    known = {"step": "job", "operation": "GET {WS}/jobs/{name}", "place": ".properties.a", "kind": "missing"}
    return Difference(**{**known, "recorded": "text", "local": "absent", **given})


def written(folder: Path, *entries: Any) -> Path:
    file = folder / "accepted.json"
    file.write_text(json.dumps(list(entries)))
    return file


def test_a_reason_covers_its_step_place_and_kind(tmp_path: Path) -> None:
    accepted = read_accepted(written(tmp_path, GOOD))
    covered, other = difference(), difference(kind="type")
    judged = judge([covered, other], accepted, ["job"])
    assert judged.left == (other,)
    assert judged.accepted == ((covered, GOOD["reason"]),)
    assert judged.stale == ()


def test_a_reason_without_a_difference_is_stale_only_if_its_step_was_compared(tmp_path: Path) -> None:
    accepted = read_accepted(written(tmp_path, GOOD))
    assert judge([], accepted, ["job-states"]).stale == tuple(accepted)
    assert judge([], accepted, ["datastore"]).stale == ()


def test_reasons_of_recorded_exchanges_count_too() -> None:
    one = difference(operation="GET /history/v1.0{WS}/runs/{run}/details", place=".jobCost")
    assert judge([one], [], ["job"]).accepted == ((one, "nothing costs anything here"),)
    # They are of places in answers: a status has none.
    assert judge([difference(kind="status", place="")], [], ["job"]).left


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({**GOOD, "reason": "because"}, "explains nothing"),
        ({**GOOD, "kind": "strange"}, "no kind 'strange'"),
        ({"step": "job"}, "exactly"),
        ({**GOOD, "more": "x"}, "exactly"),
        ("text", "exactly"),
    ],
)
def test_an_entry_without_a_reason_is_refused(tmp_path: Path, entry: Any, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        read_accepted(written(tmp_path, entry))


def test_the_files_of_the_repository_can_be_read() -> None:
    read_accepted(FILE)
    read_results()


def test_results_are_kept_and_counted_by_operation(tmp_path: Path) -> None:
    made = result_of("mine", recording(line(), line(step="job-again")), judge([difference()], [], []))
    write_result(made, tmp_path)
    (read,) = read_results(tmp_path)
    assert read == made
    assert compared_by_operation([read, read]) == {"GET {WS}/jobs/{name}": (4, 2)}
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidError, match="no result"):
        read_results(tmp_path)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def save(name: str, body: Any) -> str:
        (tmp_path / name).write_text("\n".join(recording(line(body)).text_lines()) + "\n")
        return str(tmp_path / name)

    same, other = save("a.jsonl", {"properties": {"a": 1}}), save("b.jsonl", {"properties": {}})
    none, reasons = str(written(tmp_path)), tmp_path / "reasons.json"
    assert main(["compare", same, "--against", same, "--accepted", none]) == 0
    assert "no difference" in capsys.readouterr().out
    assert main(["compare", same, "--against", other, "--accepted", none]) == 3
    assert "error: job (GET {WS}/jobs/{name}) .properties.a: missing" in capsys.readouterr().out
    reasons.write_text(json.dumps([GOOD]))
    assert main(["compare", same, "--against", other, "--accepted", str(reasons)]) == 0
    assert main(["compare", same, "--against", same, "--accepted", str(reasons)]) == 4
    assert "stale: job*" in capsys.readouterr().out
    assert main(["compare", same, "--against", other, "--accepted", none, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["differences"][0]["kind"] == "missing"
    assert main(["publish", same, "--against", other, "--accepted", none, "--into", str(tmp_path / "results")]) == 0
    assert read_results(tmp_path / "results")[0].by_operation() == {"GET {WS}/jobs/{name}": 1}
    Path(same).write_text(Path(same).read_text().replace("200", "201"))
    assert main(["compare", same, "--against", other, "--accepted", none]) == 2
    assert "changed" in capsys.readouterr().err
