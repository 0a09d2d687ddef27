"""The YAML of jobs: commands, pipelines with their components, sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.config import load_config
from aml_train.config.job.grammar import JOB
from fuzz.seeds import blocks, files
from fuzz.target import Target, as_bytes
from fuzz.targets._projects import check_load, project
from tests.unit.config.good_jobs import good_jobs


def seeds() -> Sequence[str]:
    """Return the repository's jobs."""
    shown = [block for block in blocks("yaml") if "command:" in block or "jobs:" in block or "trial:" in block]
    patterns = ("job.yml", "sweep.yml", "pipeline.yml", "components/*.yml")
    return [
        *good_jobs().values(),
        *files(*(f"{at}/**/{one}" for at in ("examples", "tests/projects") for one in patterns)),
        *shown,
    ]


def check(text: str) -> None:
    """Load the text as job.yml, without an aml-train.yml."""
    folder = project("jobs")
    (folder / "job.yml").write_bytes(as_bytes(text))
    check_load(lambda: load_config(None, directory=folder))


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.config.job.grammar",
        "aml_train.config.job.graph",
        "aml_train.config.job.graph_grammar",
        "aml_train.config.job.load",
        "aml_train.config.job.paths",
        "aml_train.config.job.references",
        "aml_train.config.job.source",
    ),
    seeds=seeds,
    check=check,
    words=(
        *JOB.keys,
        *(
            "jobs",
            "trial",
            "sweep",
            "search_space",
            "objective",
            "sampling_algorithm",
            "early_termination",
            "component",
        ),
        *(
            "${{inputs.a}}",
            "${{outputs.m}}",
            "${{parent.inputs.a}}",
            "${{parent.jobs.prep.outputs.out}}",
            "${{search_space.x}}",
        ),
        *(
            "$[[--x ${{inputs.b}}]]",
            "type",
            "path",
            "mode",
            "uri_folder",
            "file:./components/prep.yml",
            "azureml:e@latest",
        ),
    ),
    mutate=lambda mutator, text: mutator.yaml(text),
)
