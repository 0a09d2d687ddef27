"""The time that a plan of a large pipeline takes, beyond imports.

Usage: ``python -m benchmarks.graph_plan [--rounds N] [--nodes N]``.

Goal: a pipeline of 200 nodes is checked, resolved, planned and rendered in at most 0.5 s more than one of one node.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import make_row, print_table, time_in_turns

_COMPONENT = """\
type: command
command: python train.py ${{inputs.data}} ${{outputs.next}}
code: ../src
inputs: {data: {type: uri_folder, optional: true}}
outputs: {next: {type: uri_folder}}
"""


def write_project(folder: Path, nodes: int) -> None:
    """Write a pipeline whose nodes follow each other, all of one component."""
    for name in ("src", "components"):
        (folder / name).mkdir()
    (folder / "src" / "train.py").write_text("print('a node')\n")
    (folder / "components" / "step.yml").write_text(_COMPONENT)
    lines = ["type: pipeline", "settings: {default_compute: azureml:cpu-cluster}", "jobs:"]
    for number in range(nodes):
        lines += [f"  step{number}:", "    component: components/step.yml"]
        if number:
            lines += [f'    inputs: {{data: "${{{{parent.jobs.step{number - 1}.outputs.next}}}}"}}']
    (folder / "pipeline.yml").write_text("\n".join([*lines, ""]))
    (folder / "aml-train.yml").write_text("job: pipeline.yml\nimage: {base: 'python:3.11-slim-bookworm'}\n")


def plan(folder: Path) -> str:
    """Return the plan of a project, without a request for its base."""
    from aml_train.config import load_config
    from aml_train.core.references import ImageRef
    from aml_train.image import BaseImage
    from aml_train.jobs import TargetNames
    from aml_train.pipeline.plan import make_plan, render_plan
    from aml_train.pipeline.resolve import resolve

    def base(reference: ImageRef, _platform: str) -> BaseImage:
        return BaseImage(reference=reference, digest=f"sha256:{'b' * 64}")

    config = load_config(None, directory=folder)
    resolved = resolve(config, platform="linux/amd64", resolve_base=base, commit=lambda _folder: None)
    names = TargetNames(
        target="local",
        description="",
        scope="",
        registry_for_jobs="example.azurecr.io",
        registry_for_engine="example.azurecr.io",
        compute=None,
    )
    return render_plan(make_plan(config, resolved, names))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="runs of each plan  [default: 11]")
    parser.add_argument("--nodes", type=int, default=200, help="nodes of the large pipeline  [default: 200]")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        plan(options.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        commands = {}
        for name, nodes in (("one node", 1), (f"{options.nodes} nodes", options.nodes)):
            project = Path(folder, str(nodes))
            project.mkdir()
            write_project(project, nodes)
            commands[name] = [sys.executable, "-m", "benchmarks.graph_plan", "--child", str(project)]
        times = time_in_turns(commands, rounds=options.rounds)
    baseline = make_row("one node", times["one node"])
    bare = statistics.median(times["one node"])
    large = f"{options.nodes} nodes"
    rows = (baseline, make_row(large, times[large], baseline=bare, more=0.5))
    print_table(f"Plan of a pipeline: medians of {options.rounds} runs in turns", rows, baseline=baseline)


if __name__ == "__main__":
    main()
