"""azure-ai-ml's own end-to-end tests, run live against the local AzureML. ``nox -s azure_ai_ml`` prepares them.

The tests come from the source distribution of the version that is locked. It leaves out their YAML files, which are in the SDK's
repository alone (``sdk/ml/azure-ai-ml/tests/test_configs``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator, running

SOURCES: Final = os.environ.get("AML_TRAIN_AZURE_AI_ML", "")
CONFIGS: Final = os.environ.get("AML_TRAIN_AZURE_AI_ML_CONFIGS", "")
TOOLS: Final = Path(__file__).parent / "azure_sdk_tools"
SECONDS: Final = 3000
PARTS: Final = ("command_job", "environment", "model", "dataset", "datastore", "compute", "code_asset")
#: The clusters that the tests' jobs name.
CLUSTERS: Final = ("cpu-cluster", "gpu-cluster", "testCompute")
#: The registries that the tests' clients name.
REGISTRIES: Final = ("testFeed", "UnsecureTest-testFeed", "sdk-test")
#: Tests that do not count, each with what it needs of another subscription.
ELSEWHERE: Final = {
    "test_command_job_with_singularity": "a Singularity virtual cluster in a subscription of Microsoft's",
}
WANTED: Final = 0.95
GRAPH_PARTS: Final = ("pipeline_job", "component", "sweep_job")
#: Tests of graphs that do not count: nodes of other types, and other services.
GRAPHS_ELSEWHERE: Final = re.compile(
    r"spark|parallel|automl|auto_ml|import|data_transfer|datatransfer|flow|singularity|virtual_cluster|batch|do_while|if_else|foreach|_in_items"
    r"|finetun|distillation|internal",
    re.IGNORECASE,
)
GRAPHS_WANTED: Final = 0.8
_PREPARE: Final = """
import os
from azure.ai.ml import MLClient
from azure.ai.ml.entities import AmlCompute
from azure.identity import DefaultAzureCredential
client = MLClient(
    DefaultAzureCredential(),
    os.environ["ML_SUBSCRIPTION_ID"], os.environ["ML_RESOURCE_GROUP"], os.environ["ML_WORKSPACE_NAME"]
)
for name in os.environ["CLUSTERS"].split():
    client.compute.begin_create_or_update(AmlCompute(name=name, size="STANDARD_DS3_V2", max_instances=3)).result()
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    # Curated environments are played by the base; the tests' jobs only echo.
    with running(
        Emulator(tmp_path_factory.mktemp("emulator"), environment={"AML_EMULATOR_ENVIRONMENTS": f"AzureML-*={BASE}"})
    ) as service:
        yield service


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SDK's tests with their YAML files, in the layout in which they expect to run."""
    assert SOURCES, "nox -s azure_ai_ml unpacks the source distribution, and sets AML_TRAIN_AZURE_AI_ML"
    assert CONFIGS, "AML_TRAIN_AZURE_AI_ML_CONFIGS: sdk/ml/azure-ai-ml/tests/test_configs of the SDK's repository"
    folder = tmp_path_factory.mktemp("sdk")
    shutil.copytree(Path(SOURCES, "tests"), folder / "tests")
    shutil.copytree(CONFIGS, folder / "tests" / "test_configs", dirs_exist_ok=True)
    return folder


def variables(emulator: Emulator, project: Path) -> dict[str, str]:
    """Return the variables of a live run of the SDK's tests."""
    info = emulator.info
    return {
        **emulator.environment(),
        "ML_SUBSCRIPTION_ID": info["subscription_id"],
        "ML_RESOURCE_GROUP": info["resource_group"],
        "ML_WORKSPACE_NAME": info["workspace"],
        "ML_FEATURE_STORE_NAME": "none",
        "ML_TENANT_ID": info["tenant_id"],
        "ML_CLIENT_ID": info["client_id"],
        "ML_CLIENT_SECRET": info["client_secret"],
        "ML_TEST_STORAGE_ACCOUNT_NAME": "sdkteststorage",
        "ML_TEST_STORAGE_ACCOUNT_PRIMARY_KEY": "cHJpbWFyeQ==",
        "ML_TEST_STORAGE_ACCOUNT_SECONDARY_KEY": "c2Vjb25kYXJ5",
        "CLUSTERS": " ".join(CLUSTERS),
        "PYTHONPATH": os.pathsep.join((str(TOOLS), str(project / "tests"), *sys.path)),
    }


def prepare(emulator: Emulator, environ: dict[str, str]) -> None:
    """Make what the SDK's test workspace has: clusters and registries."""
    subprocess.run([sys.executable, "-c", _PREPARE], env=environ, check=True, timeout=SECONDS)
    for name in REGISTRIES:
        emulator.admin("POST", f"registries?name={name}").raise_for_status()


def test_the_sdks_own_tests_pass(emulator: Emulator, project: Path, tmp_path: Path) -> None:
    endings = run(emulator, project, tmp_path / "report.xml", PARTS)
    judge({name: how for name, how in endings.items() if name not in ELSEWHERE}, WANTED)


def test_the_sdks_own_tests_of_graphs_pass(emulator: Emulator, project: Path, tmp_path: Path) -> None:
    endings = run(emulator, project, tmp_path / "graphs.xml", GRAPH_PARTS)
    judge({name: how for name, how in endings.items() if not GRAPHS_ELSEWHERE.search(name)}, GRAPHS_WANTED)


def run(emulator: Emulator, project: Path, report: Path, parts: tuple[str, ...]) -> dict[str, str]:
    """Run the SDK's end-to-end tests of these parts; return how each ended."""
    environ = variables(emulator, project)
    prepare(emulator, environ)
    options = ["-p", "devtools_testutils.proxy_fixtures", "-p", "no:cacheprovider", "-m", "e2etest", "--timeout=900"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", *options, f"--junitxml={report}"),
            *(f"tests/{part}/e2etests" for part in parts),
        ],
        cwd=project,
        env=environ,
        check=False,
        timeout=SECONDS,
    )
    return ended(report)


def judge(endings: dict[str, str], wanted: float) -> None:
    """Fail if less than the share *wanted* of the tests that were not skipped passed."""
    counting = {name: how for name, how in endings.items() if how != "skipped"}
    failed = sorted(name for name, how in counting.items() if how != "passed")
    print(
        Counter(endings.values()), f"{len(counting) - len(failed)} of {len(counting)} that count", *failed, sep="\n"
    )
    assert len(counting) - len(failed) >= wanted * len(counting), failed


def ended(report: Path) -> dict[str, str]:
    """Return each test's name with how it ended: passed, failed, error or skipped."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 -- pytest wrote it
        how = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[case.attrib["name"]] = "passed" if not how else "skipped" if how == {"skipped"} else "failed"
    return found
