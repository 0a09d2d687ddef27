"""The fixture ``azureml``: the Azure SDKs of this process talk to the local AzureML. Copy this file.

It needs nothing but requests. ``AML_EMULATOR`` names another address than http://127.0.0.1:7380.
"""

import os
import ssl
import sys
import time
from pathlib import Path

import pytest
import requests

sys.path.insert(0, str(Path(__file__).parents[1]))

ADDRESS = os.environ.get("AML_EMULATOR", "http://127.0.0.1:7380")
READY_SECONDS = 60


def ask(path):
    """Return what the local AzureML says of itself; proxies of the environment play no part."""
    with requests.Session() as session:
        session.trust_env = False
        # The one name that it answers under, wherever it is.
        answer = session.get(f"{ADDRESS}/_emulator/{path}", headers={"Host": "localhost"}, timeout=10)
    answer.raise_for_status()
    return answer.json()


@pytest.fixture(scope="session", autouse=True)
def azureml(tmp_path_factory):
    """Wait for the local AzureML, point this process at it, and return what it says of itself."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            ask("health")
            break
        except requests.RequestException as error:
            if time.monotonic() > deadline:
                pytest.fail(f"no local AzureML is ready at {ADDRESS}: {error}")
            time.sleep(0.2)
    info = ask("info")
    # The system's authorities, and the local AzureML's own.
    system = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    bundle = tmp_path_factory.mktemp("trust") / "ca-bundle.pem"
    bundle.write_text((Path(system).read_text() if system else "") + "\n" + info["ca_pem"])
    variables = {
        "HTTPS_PROXY": ADDRESS,
        "NO_PROXY": "localhost,127.0.0.1",
        "REQUESTS_CA_BUNDLE": str(bundle),
        "SSL_CERT_FILE": str(bundle),
        "AZURE_TENANT_ID": info["tenant_id"],
        "AZURE_CLIENT_ID": info["client_id"],
        "AZURE_CLIENT_SECRET": info["client_secret"],
        "AZURE_SUBSCRIPTION_ID": info["subscription_id"],
        "AML_RESOURCE_GROUP": info["resource_group"],
        "AML_WORKSPACE": info["workspace"],
        "AML_COMPUTE": info["compute"],
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in ("https_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield info
