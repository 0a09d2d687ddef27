"""Sign-in to Azure and the workspace, by inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from aml_train.core.errors import Fault
from aml_train_action.inputs.azure import AzureInputs, read_azure
from aml_train_action.inputs.inputs import Inputs, load_configuration, read_inputs

SECRET = "the-secret"
FULL = {"clientId": "c", "clientSecret": SECRET, "tenantId": "t", "subscriptionId": "s"}
CREDS = json.dumps(FULL)
OIDC = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "request-secret"}
JOB = "command: python train.py\nenvironment: azureml:sklearn:1\n"
GUID = "12345678-1234-1234-1234-123456789012"


@pytest.mark.parametrize(
    ("inputs", "environment", "expected"),
    [
        (AzureInputs(), {"A": "1"}, {"A": "1"}),
        (
            AzureInputs(client_id="c", tenant_id="t", subscription_id="s", environment="AzureChinaCloud"),
            {"AZURE_CLIENT_ID": "other"},
            {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_SUBSCRIPTION_ID": "s", "AZURE_ENVIRONMENT": "AzureChinaCloud"},
        ),
        (
            AzureInputs(client_id="c", tenant_id="t", client_secret=SECRET),
            {"AZURE_CREDENTIALS": CREDS},
            {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_SECRET": SECRET, "AZURE_CREDENTIALS": CREDS, "AML_TRAIN_SIGN_IN": "secret"},
        ),
        (
            AzureInputs(creds=CREDS), {"AZURE_CLIENT_SECRET": "x"},
            {"AZURE_CLIENT_SECRET": "x", "AZURE_CREDENTIALS": CREDS, "AZURE_SUBSCRIPTION_ID": "s", "AML_TRAIN_SIGN_IN": "creds"},
        ),
        (
            AzureInputs(creds=CREDS, subscription_id="mine"), {},
            {"AZURE_CREDENTIALS": CREDS, "AZURE_SUBSCRIPTION_ID": "mine", "AML_TRAIN_SIGN_IN": "creds"},
        ),
        (
            AzureInputs(creds=CREDS), {"AZURE_SUBSCRIPTION_ID": "variable", "AML_TRAIN_SIGN_IN": "oidc"},
            {"AZURE_CREDENTIALS": CREDS, "AZURE_SUBSCRIPTION_ID": "variable", "AML_TRAIN_SIGN_IN": "oidc"},
        ),
    ],
)  # fmt: skip
def test_what_the_pipeline_sees(
    inputs: AzureInputs, environment: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    assert inputs.variables(environment) == expected


def test_the_pipeline_sees_no_input_and_nothing_that_fetches_tokens() -> None:
    given = {"INPUT_CLIENT-SECRET": SECRET, "INPUT_TARGET": "azure", "client-secret": SECRET, "creds": CREDS}
    assert AzureInputs().variables({**given, **OIDC, "PATH": "/bin"}) == {"PATH": "/bin"}


def test_no_secret_is_in_a_repr() -> None:
    assert SECRET not in repr(AzureInputs(client_secret=SECRET, creds=CREDS))


@pytest.mark.parametrize(
    ("given", "environment", "complaint"),
    [
        ({"creds": CREDS, "client-secret": SECRET}, {}, "with.creds: both `creds` and `client-secret` are given: keep one; with OIDC neither is needed"),
        ({"creds": "{"}, {}, "with.creds: it is no JSON object with clientId, clientSecret, tenantId: az ad sp create-for-rbac --json-auth writes one"),
        ({"creds": json.dumps({"clientSecret": SECRET})}, {}, "with.creds: it is no JSON object with"),
        ({"creds": '["the-secret"]'}, {}, "with.creds: it is no JSON object with"),
        ({"creds": CREDS, "client-id": "d"}, {}, "with.creds: its clientId is not `client-id`: leave `client-id` out, or leave `creds` out"),
        ({"creds": CREDS, "tenant-id": "u"}, {}, "with.creds: its tenantId is not `tenant-id`"),
        ({"client-secret": SECRET}, {}, "with.client-secret: it needs `client-id` and `tenant-id`: give `client-id` and `tenant-id` as well; an expression such as ${{ vars.NAME }} may be empty"),
        ({"client-secret": SECRET, "client-id": "c"}, {}, "with.client-secret: it needs `tenant-id`"),
        ({"tenant-id": "t"}, {}, "with.tenant-id: it needs `client-id`"),
        ({"environment": "mars"}, {}, "with.environment: there is no cloud 'mars': Known are AzureCloud, AzureUSGovernment, AzureChinaCloud."),
    ],
)  # fmt: skip
def test_contradictions(given: Mapping[str, str], environment: Mapping[str, str], complaint: str) -> None:
    faults: list[Fault] = []
    read_azure(given, environment, faults)
    assert str(faults[0]).startswith(complaint)
    assert SECRET not in "".join(map(str, faults))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "job.yml").write_text(JOB)
    return tmp_path


def read(workspace: Path, /, **given: str) -> Inputs:
    return read_inputs({f"INPUT_{key.replace('_', '-').upper()}": value for key, value in given.items()}, workspace)


CONFIG = f"""\
job: job.yml
target: prod
targets:
  prod: {{subscription-id: {GUID}, resource-group: g, workspace: old, registry: old.azurecr.io, compute: small}}
"""


def test_inputs_win_over_the_configuration(project: Path) -> None:
    (project / "aml-train.yml").write_text(CONFIG)
    other = GUID.replace("1", "9")
    inputs = read(
        project,
        subscription_id=other,
        resource_group="001",
        workspace="new",
        registry="new.azurecr.io",
        compute="big",
    )
    config, changes = load_configuration(inputs)
    target = config.target
    assert (target.subscription_id, target.resource_group, target.workspace, target.registry, target.compute) == (
        other, "001", "new", "new.azurecr.io", "big",
    )  # fmt: skip
    line = inputs.command_line(project, changes)
    assert 'targets.prod.workspace="new"' in line
    assert load_configuration(read(project))[0].target.workspace == "old"
