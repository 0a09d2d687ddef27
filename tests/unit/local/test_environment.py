"""The variables that lead Azure's SDKs to the local AzureML, and the settings they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aml_train.core.errors import ServiceError
from aml_train.local.container import container_environment
from aml_train.local.environment import client_environment, no_proxy
from aml_train.local.settings import IMAGE, EmulatorInfo, EmulatorSettings

ANSWER: dict[str, Any] = {
    "version": "1",
    "instance": "0123",
    "tenant_id": "tenant",
    "client_id": "client",
    "client_secret": "it's secret",
    "subscription_id": "subscription",
    "resource_group": "aml-local",
    "workspace": "local",
    "location": "eastus",
    "compute": "local",
    "registry": {"login_server": "amllocal.azurecr.io", "engine": "localhost:7381"},
    "storage_account": "amllocalstore",
    "ca_pem": "OUR CA\n",
    "api_host": "eastus.api.azureml.ms",
}
INFO = EmulatorInfo.from_answer(ANSWER, EmulatorSettings(port=1234))


@pytest.fixture
def user_bundle(tmp_path: Path) -> Path:
    path = tmp_path / "user.pem"
    path.write_text("USER CA\n")
    return path


def written(path: Path) -> tuple[int, int, int]:
    """Return what tells a file from one that was written anew. The time of the last reading, in its status too, does not."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def test_an_answer_becomes_info() -> None:
    assert (INFO.name, INFO.host, INFO.port) == ("aml-emulator", "127.0.0.1", 1234)
    assert INFO.registry_engine_name == "localhost:7381"
    assert "secret" not in repr(INFO)


@pytest.mark.parametrize("missing", ["ca_pem", "registry", "instance"])
def test_an_answer_of_something_else_is_told(missing: str) -> None:
    answer = {key: value for key, value in ANSWER.items() if key != missing}
    with pytest.raises(ServiceError, match=f"is not this version's local AzureML: its answer lacks .*{missing[:8]}"):
        EmulatorInfo.from_answer(answer, EmulatorSettings())


def test_the_variables_lead_to_the_emulator(user_bundle: Path, tmp_path: Path) -> None:
    base = {"SSL_CERT_FILE": str(user_bundle), "NO_PROXY": "intra.net,.azure.com", "no_proxy": "other.net"}
    variables = client_environment(INFO, base, cache=tmp_path / "cache")
    bundle = tmp_path / "cache/ca-bundle.pem"
    assert variables == {
        "HTTPS_PROXY": "http://127.0.0.1:1234",
        "https_proxy": "http://127.0.0.1:1234",
        "NO_PROXY": "localhost,127.0.0.1,::1,intra.net,other.net",
        "no_proxy": "localhost,127.0.0.1,::1,intra.net,other.net",
        "REQUESTS_CA_BUNDLE": str(bundle),
        "SSL_CERT_FILE": str(bundle),
        "CURL_CA_BUNDLE": str(bundle),
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_CLIENT_SECRET": "it's secret",
        "AZURE_SUBSCRIPTION_ID": "subscription",
        "AML_RESOURCE_GROUP": "aml-local",
        "AML_WORKSPACE": "local",
    }
    text = bundle.read_text()
    assert text.index("USER CA") < text.index("OUR CA")
    assert bundle.stat().st_mode & 0o777 == 0o644
    assert list(bundle.parent.iterdir()) == [bundle]


def test_the_bundle_does_not_grow_when_the_variables_are_taken_over_again(user_bundle: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    variables = client_environment(INFO, {"REQUESTS_CA_BUNDLE": str(user_bundle)}, cache=cache)
    before = written(cache / "ca-bundle.pem")
    again = client_environment(INFO, variables, cache=cache)
    assert again == variables
    assert written(cache / "ca-bundle.pem") == before
    other = EmulatorInfo.from_answer(ANSWER | {"ca_pem": "NEW CA"}, EmulatorSettings(port=1234))
    client_environment(other, variables, cache=cache)
    text = (cache / "ca-bundle.pem").read_text()
    assert "OUR CA" not in text
    assert text.count("USER CA") == text.count("NEW CA") == 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", []),
        ("*", []),
        ("a.b, c", ["a.b", "c"]),
        ("windows.net,.net,x.azureml.ms", []),
        ("myazure.com", ["myazure.com"]),
    ],
)
def test_no_proxy_cannot_lead_past_the_emulator(given: str, kept: list[str]) -> None:
    assert no_proxy({"NO_PROXY": given}).split(",") == ["localhost", "127.0.0.1", "::1", *kept]


def test_settings_come_from_the_environment() -> None:
    assert EmulatorSettings.from_environment({}) == EmulatorSettings()
    assert EmulatorSettings().image == IMAGE
    found = EmulatorSettings.from_environment(
        {
            "AML_TRAIN_EMULATOR_NAME": "mine",
            "AML_TRAIN_EMULATOR_IMAGE": "x:1",
            "AML_TRAIN_EMULATOR_HOST": "172.17.0.1",
            "AML_TRAIN_EMULATOR_PORT": "1",
            "AML_TRAIN_EMULATOR_REGISTRY_PORT": "2",
            "AML_TRAIN_EMULATOR_MAX_JOBS": "3",
            "AML_TRAIN_EMULATOR_FUSE": "yes",
        }
    )
    assert found == EmulatorSettings(
        name="mine", image="x:1", host="172.17.0.1", port=1, registry_port=2, max_jobs=3, fuse=True
    )
    assert (found.volume, found.registry_engine_name) == ("mine-data", "localhost:2")


@pytest.mark.parametrize(
    ("outer", "proxies"),
    [
        ({}, {}),
        ({"HTTPS_PROXY": "http://127.0.0.1:7380"}, {}),
        ({"https_proxy": "http://localhost:3128", "HTTP_PROXY": "nonsense"}, {}),
        ({"https_proxy": "http://corp:3128"}, {"HTTPS_PROXY": "http://corp:3128", "NO_PROXY": ""}),
        (
            {"HTTP_PROXY": "http://corp:3128", "no_proxy": "intra"},
            {"HTTP_PROXY": "http://corp:3128", "NO_PROXY": "intra"},
        ),
    ],
)
def test_the_container_goes_on_through_a_proxy_that_it_can_reach(
    outer: dict[str, str], proxies: dict[str, str]
) -> None:
    assert container_environment(EmulatorSettings(name="n", registry_port=5, max_jobs=4), outer) == {
        "AML_EMULATOR_CONTAINER": "n",
        "AML_EMULATOR_CLIENTS": "network",
        "AML_EMULATOR_JOB_MEMORY": "",
        "AML_EMULATOR_JOB_PROCESSES": "4096",
        "AML_EMULATOR_REGISTRY_ENGINE_NAME": "localhost:5",
        "AML_EMULATOR_MAX_JOBS": "4",
        "AML_EMULATOR_FUSE": "no",
        "AML_EMULATOR_PAGE_ADDRESS": "http://127.0.0.1:7380",
        **proxies,
    }
