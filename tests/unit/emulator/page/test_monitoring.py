"""System metrics on a run's page."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from aml_emulator.domain.usage import MEGABYTE, record_usage
from aml_emulator.executor.usage import GpuReading
from aml_emulator.page.monitoring import LINES, NODES, monitoring_of
from tests.unit.emulator.page.test_page import Browser
from tests.unit.emulator.parts import Service, idle_reading

STARTED = 1_800_000_000.0


def use(service: Service, *, seconds: int = 20, nodes: int = 1, **changed: Any) -> None:
    """Have each node use half of two cores for so long, and 412 MiB in the end."""
    base = idle_reading(STARTED, memory_limit=24_000 * MEGABYTE)
    for node in range(nodes):
        for second in range(2, seconds + 1, 2):
            memory = 412 * MEGABYTE * second // seconds
            reading = dataclasses.replace(
                base, node=node, at=STARTED + second, cpu_seconds=float(second), memory=memory, **changed
            )
            record_usage(service.store, "j", reading)


@pytest.fixture
def job(service: Service) -> Service:
    assert service.submit("j").status == 201
    return service


def test_a_run_that_was_not_sampled_has_no_monitoring(job: Service) -> None:
    page = Browser(job).text("/ui/runs/j")
    assert "Monitoring" not in page
    assert "<dt>Used</dt>" not in page


def test_what_a_job_used(job: Service) -> None:
    use(job, received=3 * MEGABYTE)
    page = Browser(job).text("/ui/runs/j")
    assert "<dt>Used</dt><dd>CPU 50 % of 2 cores, memory at most 412.0 MiB of 23.4 GiB</dd>" in page
    assert re.findall(r"<figcaption>(\w+)</figcaption>", page) == [
        "CpuUtilizationPercentage",
        "CpuMemoryUtilizationMegabytes",
        "NetworkInputMegabytes",
    ]
    cells = re.findall(r'<td class="number">([^<]*)</td>', page)
    assert cells == ["50 %", "50 %", "226.6 MiB", "412.0 MiB", "0 B", "0 B", "3.0 MiB", "0 B"]
    assert "seconds after the start" in page
    assert "node-0 from 50 to 50" in page
    assert "swatch" not in page, "one curve needs no legend"


def test_gpus_and_nodes_have_rows_and_curves(job: Service) -> None:
    gpus = (
        GpuReading(device="0", percentage=90.0, used=1000.0, capacity=2000.0),
        GpuReading(device="1", percentage=70.0, used=1500.0, capacity=2000.0),
    )
    use(job, nodes=2, gpus=gpus)
    shown = monitoring_of(job.services, job.store.runs.require("j"))
    assert shown is not None
    assert shown.line == (
        "CPU 50 % of 4 cores on 2 nodes, memory at most 412.0 MiB of 23.4 GiB of a node, 4 GPUs 80 %,"
        " GPU memory at most 1.5 GiB of 2.0 GiB of a GPU"
    )
    assert [row[0] for row in shown.nodes] == ["node-0", "node-1"]
    assert shown.gpus[1] == ("node-0/1", "70 %", "70 %", "1.5 GiB", "1.5 GiB")
    gpu = next(chart for chart in shown.charts if chart.key == "GpuUtilizationPercentage")
    assert [line.title for line in gpu.lines] == ["node-0/0", "node-0/1", "node-1/0", "node-1/1"]
    page = Browser(job).text("/ui/runs/j")
    assert page.count('class="swatch"') == 2 * 2 + 2 * 4


def test_many_nodes_are_bounded(job: Service) -> None:
    use(job, nodes=NODES + 3, seconds=2)
    shown = monitoring_of(job.services, job.store.runs.require("j"))
    assert shown is not None
    assert (len(shown.nodes), shown.left_out) == (NODES, 3)
    assert {len(chart.lines) for chart in shown.charts} == {LINES}
    assert {chart.left_out for chart in shown.charts} == {NODES + 3 - LINES}
    assert "95 further curves are not drawn." in Browser(job).text("/ui/runs/j")


@pytest.mark.parametrize("seconds", [2, 20, 600, 50_000])
def test_the_charts_are_inside_of_their_frames(job: Service, seconds: int) -> None:
    use(job, seconds=seconds) if seconds < 1000 else use_long(job, seconds)
    page = Browser(job).text("/ui/runs/j")
    drawings = re.findall(r'<svg class="chart usage".*?</svg>', page, re.DOTALL)
    assert len(drawings) == 2
    for drawing in drawings:
        root = ET.fromstring(drawing)  # noqa: S314 - our own output
        width, height = (float(part) for part in root.attrib["viewBox"].split()[2:])
        path = next(one for one in root.iter("path"))
        points = [tuple(map(float, pair.split())) for pair in re.split("[ML]", path.attrib["d"]) if pair]
        assert len(points) >= 2
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
        assert len(list(root.iter("text"))) >= 4


def use_long(service: Service, seconds: int) -> None:
    reading = idle_reading(
        STARTED, at=STARTED + seconds, cpu_seconds=seconds * 2.001, memory=MEGABYTE, memory_limit=0
    )
    record_usage(service.store, "j", reading)


def test_a_job_of_hours_is_labelled_in_hours(job: Service) -> None:
    use_long(job, 50_000)
    page = Browser(job).text("/ui/runs/j")
    assert "hours after the start" in page
    assert "<dd>CPU 100 % of 2 cores, memory at most 1.0 MiB</dd>" in page
