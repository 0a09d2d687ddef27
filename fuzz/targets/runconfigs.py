"""Run configurations of the SDK v1, as such and as command jobs."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.config import load_config
from fuzz.seeds import files, sections
from fuzz.target import Target, as_bytes
from fuzz.targets._projects import check_load, project


def seeds() -> Sequence[str]:
    """Return the repository's run configurations."""
    tables = ("good_runconfigs.txt", "v1_of_jobs.txt")
    cases = [text for table in tables for text in sections(f"tests/unit/config/{table}").values()]
    own = [text.partition("\n>>>")[0].partition("\n@@@")[0] for text in cases]
    return [
        *own,
        *files("examples/**/*.runconfig", "tests/projects/**/*.runconfig", "tests/unit/config/runconfigs/*"),
    ]


def check(text: str) -> None:
    """Load the text as a run configuration, for either SDK."""
    folder = project("runconfigs")
    (folder / ".azureml").mkdir(exist_ok=True)
    (folder / ".azureml/train.runconfig").write_bytes(as_bytes(text))
    for sdk in ("v1", "v2"):
        (folder / "aml-train.yml").write_text(f"sdk: {sdk}\nrunconfig: train\n")
        check_load(lambda: load_config(None, directory=folder))


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.config.runconfig.grammar",
        "aml_train.config.runconfig.load",
        "aml_train.config.runconfig.to_job",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            "script",
            "arguments",
            "target",
            "framework",
            "communicator",
            "environment",
            "docker",
            "baseImage",
            "python",
        ),
        *(
            "condaDependencies",
            "nodeCount",
            "history",
            "dataReferences",
            "data",
            "mpi",
            "processCountPerNode",
            "tensorflow",
        ),
        *("environmentVariables", "maxRunDurationSeconds", "command", "sourceDirectoryDataStore", "baseDockerfile"),
    ),
    mutate=lambda mutator, text: mutator.yaml(text),
)
