"""Figures of a soak: slopes, quantiles, goals, and the amounts that its arguments mean."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.soak.__main__ import Settings, parse, settings_of
from benchmarks.soak.figures import (
    MIB,
    Phase,
    Report,
    Slope,
    as_json,
    goals_of,
    latency_of,
    lines_of,
    lines_of_phase,
    live_memory_of,
    memory_of,
    robust_slope,
)
from benchmarks.soak.sampling import Process, Sample, read_heap
from hypothesis import given
from hypothesis import strategies as st

from tests.support.soak_emulator import blocks


def _points(slope: float, *, count: int = 60, noise: float = 0.0, seed: int = 1) -> list[tuple[float, float]]:
    chance = random.Random(seed)  # noqa: S311 - noise
    return [(n / 60, 100 + slope * n / 60 + chance.gauss(0, noise)) for n in range(count)]


def test_a_slope_is_found_in_noise_with_bounds_around_it() -> None:
    found = robust_slope(_points(3.0, noise=0.2))
    assert found is not None
    assert found.low < 3.0 < found.high
    assert found.median == pytest.approx(3.0, abs=0.5)


def test_a_third_of_wild_samples_does_not_bend_a_slope() -> None:
    points = _points(2.0)
    wild = [(x, y + 500 if n % 3 == 0 and n < 40 else y) for n, (x, y) in enumerate(points)]
    found = robust_slope(wild)
    assert found is not None
    assert found.median == pytest.approx(2.0, abs=0.5)


@given(st.integers(0, 4))
def test_too_few_points_have_no_slope(count: int) -> None:
    assert robust_slope(_points(1.0, count=count)) is None


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles_are_ordered_values_of_the_list(times: Sequence[float]) -> None:
    found = latency_of(times)
    assert found is not None
    assert min(times) <= found.p50 <= found.p90 <= found.p99 <= found.most == max(times)
    assert {found.p50, found.p90, found.p99} <= set(times)
    assert sum(value <= found.p99 for value in times) >= 0.99 * len(times)


def _samples(mib_an_hour: float) -> list[Sample]:
    def process(at: float) -> Process:
        memory = int((100 + mib_an_hour * at / 3600) * MIB)
        return Process(role="service", memory=memory, resident=memory, files=10, threads=3, cpu=at / 10)

    return [Sample(at=float(at), processes=(process(at),), disk=0) for at in range(0, 3600, 60)]


def _report(*, memory: float = 0.0, p99: float = 20.0, wrong: int = 0, missing: tuple[str, ...] = ()) -> Report:
    latency = latency_of([1.0] * 90 + [p99] * 10)
    assert latency is not None
    phase = Phase(
        name="load",
        seconds=3600,
        warm=600,
        latencies={"details": latency},
        by_minute=[p99],
        memory=memory_of(_samples(memory), warm=600),
        errors={"503": wrong} if wrong else {},
        ended={"Completed": 3},
        pipelines=2,
        log_bytes_read=MIB,
        disk=(1.0, 2.0),
    )
    return Report(settings={"minutes": 60}, phases=[phase], missing=missing, statuses={"Completed": 3})


@pytest.mark.parametrize(
    ("report", "missed"),
    [
        (_report(), []),
        (_report(memory=0.9), []),
        (_report(memory=5.0), ["load: memory of service +5.0 MiB/h"]),
        (_report(p99=51.0), ["load: p99 of details 51.0 ms"]),
        (_report(wrong=2), ["load: no wrong answer (2)"]),
        (_report(missing=("jobs/a",)), ["nothing acknowledged is lost (1)"]),
    ],
)
def test_each_goal_can_be_missed(report: Report, missed: list[str]) -> None:
    found = [goal.text for goal in goals_of(report) if goal.met is False]
    assert len(found) == len(missed)
    for text, start in zip(found, missed, strict=True):
        assert text.startswith(start)
    lines = "\n".join(lines_of(report))
    assert lines.count("MISSED") == len(missed)
    (phase,) = report.phases
    shown = "\n".join(lines_of_phase(phase))
    assert shown.count("WRONG") == len(phase.errors)
    assert shown.count(" MiB/h ") == len(phase.memory)
    assert len(as_json(report)["goals"]) == len(list(goals_of(report)))


def test_bounds_on_both_sides_of_the_goal_say_that_the_run_was_too_short() -> None:
    from benchmarks.soak.figures import _is_flat

    assert _is_flat(Slope(median=0.0, low=-2.0, high=2.0)) is None
    assert _is_flat(Slope(median=0.0, low=-2.0, high=0.9)) is True
    assert _is_flat(Slope(median=3.0, low=1.1, high=4.0)) is False


def test_the_warm_up_is_no_part_of_the_memory() -> None:
    (found,) = memory_of(_samples(60.0), warm=1800)
    assert found.first == pytest.approx(130, abs=1)
    assert found.slope is not None
    assert found.slope.median == pytest.approx(60, abs=1)


def test_what_lives_on_a_heap_is_read_from_the_lines_of_a_phase(tmp_path: Path) -> None:
    file = tmp_path / "heap"
    assert read_heap(file, since=1000.0) == ()
    file.write_text("".join(f"{1000 + 60 * n}.5 {(50 + n) * MIB}\n" for n in range(-3, 60)))
    heap = read_heap(file, since=1000.0)
    assert heap[:2] == ((0.5, 50 * MIB), (60.5, 51 * MIB))
    (found,) = live_memory_of("storage, live", heap, warm=1200)
    assert (found.first, found.last, found.most) == (70, 109, 109)
    assert found.slope is not None
    assert found.slope.median == pytest.approx(60)
    assert live_memory_of("storage, live", heap, warm=4000) == ()
    phase = dataclasses.replace(_report().phases[0], memory=(found,))
    missed = [goal.text for goal in goals_of(Report(settings={}, phases=[phase])) if goal.met is False]
    assert missed == ["load: memory of storage, live +60.0 MiB/h (+60.0 to +60.0), at most +1"]
    assert "  storage, live    70.0 → 109.0 MiB, most 109.0     +60.0 MiB/h (+60.0 to +60.0)" in lines_of_phase(phase)


def test_an_hour_has_the_amounts_of_the_issue() -> None:
    settings = settings_of(parse([]))
    assert settings == Settings()
    assert (settings.minutes, settings.jobs, settings.watchers, settings.pipelines, settings.kills) == (
        60,
        2000,
        200,
        20,
        50,
    )
    assert settings.log_bytes == 1e9
    assert settings_of(parse(["--minutes", "6"])).log_bytes == 1e8
    fewer = settings_of(parse(["--containers", "--watchers", "7"]))
    assert (fewer.jobs, fewer.watchers, fewer.pipelines, fewer.places) == (100, 7, 4, 4)


@given(st.integers(1, 50_000), st.integers(1, 40))
def test_a_log_has_its_bytes_in_whole_lines(size: int, count: int) -> None:
    made = list(blocks("job-1", size, count))
    assert len(made) == count
    assert all(block and len(block) % 100 == 0 for block in made)
    assert size <= len(b"".join(made)) < size + 100 * (count + 1)
    lines = b"".join(made).splitlines()
    assert [int(line[:9]) for line in lines] == list(range(len(lines)))
