"""The run configurations of the table, as azureml-core reads them itself: both come to the same job."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from aml_emulator.domain.jobs import from_runconfig as runconfig
from tests.support.emulator_process import python_of_v1
from tests.unit.config.test_runconfig import CASES, write

pytestmark = pytest.mark.full

READ = """
import json, sys
from azureml.core.runconfig import RunConfiguration
found = {}
for name, path in json.load(sys.stdin).items():
    found[name] = json.loads(repr(RunConfiguration.load(path)))
print(json.dumps(found))
"""
#: Files that name their environment's file need the project as the path.
NOT_READ = frozenset({"environment-in-a-file", "named-as-a-job"})
DISTRIBUTIONS = {"Mpi": "mpi", "PyTorch": "pytorch", "TensorFlow": "tensorflow"}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What azureml-core reads: name of the case → the run configuration, as it would send it."""
    paths = {}
    for name, (files, _) in CASES.items():
        folder = tmp_path_factory.mktemp(name)
        write(folder, files)
        (found,) = (path for path in files if path.endswith((".runconfig", "conf/run.yml")))
        paths[name] = str(folder / found)
    given = {name: path for name, path in paths.items() if name not in NOT_READ}
    done = subprocess.run(
        [python_of_v1(), "-c", READ], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=900
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("name", sorted(CASES.keys() - NOT_READ))
def test_azureml_core_reads_the_same(name: str, read: dict[str, Any]) -> None:
    job, config = CASES[name][1], read[name]
    if config["script"]:
        config["script"] = os.path.normpath(config["script"])  # as azureml-core does when it submits (``_setup_run``)
    assert job["command"].rpartition("\n")[2] == runconfig.command_of_runconfig(config)
    assert job.get("environment_variables", {}) == runconfig.variables(config)
    resources = runconfig.resources(config)
    ours = job.get("resources", {})
    assert ours.get("instance_count", 1) == resources["instanceCount"]
    assert ours.get("shm_size", "2g") == resources["shmSize"]
    assert ours.get("docker_args", "").split() == resources.get("dockerArgsList", [])
    assert (f"PT{job['limits']['timeout']}S" if "limits" in job else None) == runconfig.limits(config).get("timeout")
    distribution = runconfig.distribution(config)
    assert (distribution is None) == ("distribution" not in job)
    if distribution is not None:
        kind, *values = distribution.values()
        assert [DISTRIBUTIONS[kind], *values] == list(job["distribution"].values())
    assert job.get("compute", "azureml:local") == f"azureml:{config['target']}"
