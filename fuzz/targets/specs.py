"""Parts of jobs and tasks that the local AzureML reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aml_emulator.domain import DomainError
from aml_emulator.domain.clusters import seconds_of
from aml_emulator.domain.environments import conda_of
from aml_emulator.domain.jobs.docker_args import docker_options, size_bytes
from aml_emulator.domain.limits import check_asset_name, check_asset_version, check_metrics, check_run_fields
from aml_emulator.executor.expressions import ExpressionError, expression_references, render
from aml_emulator.executor.layout import UnsafePathError, safe_relative
from aml_emulator.executor.task_spec import TaskError, parse_task
from aml_emulator.network.fault_injection import Rule
from aml_emulator.registry.front import subject_of, with_subject
from fuzz.target import Target, require


def seeds() -> Sequence[str]:
    """Return texts of each kind."""
    return [
        *(
            "--cpus 1 --env A=B --memory=1g --ulimit nofile=1:2 --shm-size 2g --init",
            "-e 'A B=c' --cap-add SYS_PTRACE --network host",
            "2g",
        ),
        *(
            "python train.py ${{inputs.a}} $[[--x ${{inputs.b}}]] ${{outputs.m}}",
            "PT2H",
            "P1DT2H3M4.5S",
            "model-1",
            "val/acc",
        ),
        'version: v1.1.0\nstepTimeout: 600\nsteps:\n  - build: -t $Registry/a:1 -f Dockerfile --build-arg A=b .\n    timeout: 5\n  - push: ["$Registry/a:1"]\n',
        "dependencies: [python=3.11, {pip: [numpy]}]\nwhen: 2026-01-01\n",
        '{"subject": {"digest": "sha256:00"}, "layers": []}',
        "outputs/a/b.txt",
    ]


def check(text: str) -> None:
    """Read a text as each of them."""
    try:
        options = docker_options({"dockerArgs": text})
        require("Privileged" not in options.host or options.host["Privileged"] is False, "a job is privileged")
    except DomainError as error:
        require(str(error), "a refusal says nothing")
    words = text.split()
    try:
        docker_options({"dockerArgsList": words})
        size_bytes(text, "shmSize")
    except DomainError as error:
        require(str(error), "a refusal says nothing")
    try:
        found = expression_references(text)
        names = {one.name: "/x" for one in found}
        require("${{" not in render(text, names, names) or "${{" in text, "an expression is left")
    except ExpressionError as error:
        require(str(error), "a refusal says nothing")
    seconds = seconds_of(text)
    require(seconds is None or seconds >= 0, "a negative duration")
    try:
        parse_task(text)
    except TaskError as error:
        require(str(error), "a refusal says nothing")
    readers: tuple[Callable[[str], object], ...] = (
        check_asset_name,
        check_asset_version,
        conda_of,
        lambda one: check_metrics([one]),
        lambda one: check_run_fields(display_name=one),
    )
    for read in readers:
        try:
            read(text)
        except DomainError as error:
            require(str(error), "a refusal says nothing")
    try:
        path = safe_relative(text)
        require(not path.startswith("/") and ".." not in path.split("/"), f"{path!r} leads elsewhere")
    except UnsafePathError as error:
        require(str(error), "a refusal says nothing")
    try:
        Rule.parse({"kind": words[0] if words else "", "delay": text, "status": text, "path": text})
    except ValueError as error:
        require(str(error), "a refusal says nothing")
    manifest = text.encode("utf-8", "surrogatepass")
    if digest := subject_of(manifest):
        with_subject(b"HTTP/1.1 201 Created\r\n\r\n", digest)


TARGET = Target(
    kind="text",
    reads=(
        "aml_emulator.domain.clusters",
        "aml_emulator.domain.environments",
        "aml_emulator.domain.jobs.docker_args",
        "aml_emulator.domain.limits",
        "aml_emulator.executor.expressions",
        "aml_emulator.executor.layout",
        "aml_emulator.executor.task_spec",
        "aml_emulator.network.fault_injection",
        "aml_emulator.registry.front",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            "--env ",
            "--memory ",
            "--cpus ",
            "--ulimit ",
            "--privileged",
            "--network ",
            "-v /:/x",
            "nofile=1:2",
            "1g",
            "=",
            "'",
            '"',
            "\\",
        ),
        *(
            "${{inputs.",
            "${{outputs.",
            "}}",
            "$[[",
            "]]",
            "PT",
            "P1D",
            "steps:",
            "build: ",
            "push: ",
            "version: ",
            "{{.Run.ID}}",
            "- ",
            "\n  ",
        ),
        *("2020-99-99", "status", "delay", "dependencies:", "pip:"),
    ),
    mutate=lambda mutator, text: mutator.yaml(text),
)
