"""What the checks of Azure conclude: subjects, roles, tokens, hosts, the clock."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
import requests

from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.doctor import registry
from aml_train.azure.doctor.identity import check_subscription, forms
from aml_train.azure.doctor.network import Ask, check_clock, reach
from aml_train.azure.doctor.probe import Probe, Reply, Wanted
from aml_train.azure.doctor.registry import actions_in, check_registry_role
from aml_train.azure.doctor.workspace import check_compute, check_quota
from aml_train.azure.http import WorkspaceId
from aml_train.azure.roles import Permission, allows, assignment, missing
from aml_train.azure.sign_in import SignIn, credential_command
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError

CLAIMS = {
    "iss": "https://token.actions.githubusercontent.com",
    "aud": "api://AzureADTokenExchange",
    "repository": "octo-org/digits",
    "repository_id": "456789",
    "repository_owner_id": "123456",
}
NAMED = "repo:octo-org/digits:ref:refs/heads/main"
IMMUTABLE = "repo:octo-org@123456/digits@456789:ref:refs/heads/main"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({**CLAIMS, "sub": NAMED}, ("form by name", IMMUTABLE)),
        ({**CLAIMS, "sub": IMMUTABLE}, ("immutable form", NAMED)),
        ({**CLAIMS, "sub": "repo:octo-org/digits:pull_request", "repository_id": None}, ("form by name", "")),
        ({**CLAIMS, "sub": "repo:octo-org@1/digits@2:environment:prod"}, ("immutable form", "repo:octo-org/digits:environment:prod")),
        ({"sub": "job_workflow_ref:o/r/.github/workflows/a.yml@main"}, ("form of the organization or repository's own", "")),
        ({}, ("form of the organization or repository's own", "")),
    ],
)  # fmt: skip
def test_both_forms_of_a_subject(claims: Mapping[str, Any], expected: tuple[str, str]) -> None:
    assert forms(claims) == expected


@pytest.mark.parametrize("subject", [NAMED, IMMUTABLE, "x'; rm -rf / #", ""])
@pytest.mark.parametrize("audience", ["api://AzureADTokenExchange", ["a", "b"], None])
def test_the_command_that_makes_azure_trust_a_subject(subject: str, audience: object) -> None:
    words = shlex.split(credential_command({**CLAIMS, "sub": subject, "aud": audience}, "the-client"))
    assert words[:6] == ["az", "ad", "app", "federated-credential", "create", "--id"]
    assert words[6:8] == ["the-client", "--parameters"]
    found = json.loads(words[8])
    assert (found["subject"], found["issuer"]) == (subject, CLAIMS["iss"])
    assert found["audiences"] == (audience if isinstance(audience, list) else [audience or ""])
    # https://learn.microsoft.com/graph/api/application-post-federatedidentitycredentials: 120 characters that an address can have.
    assert 0 < len(found["name"]) <= 120
    assert found["name"].replace("-", "").replace("_", "").isalnum()
    assert len(words) == 9


SCIENTIST: Permission = {
    "actions": [
        f"Microsoft.MachineLearningServices/workspaces/*/{one}" for one in ("read", "action", "delete", "write")
    ],
    "notActions": [
        "Microsoft.MachineLearningServices/workspaces/delete",
        "Microsoft.MachineLearningServices/workspaces/computes/*/write",
    ],
    "dataActions": [],
    "notDataActions": [],
}
ML = "Microsoft.MachineLearningServices/workspaces"


@pytest.mark.parametrize(
    ("permission", "action", "data", "expected"),
    [
        (SCIENTIST, f"{ML}/jobs/write", False, True),
        (SCIENTIST, f"{ML.upper()}/jobs/WRITE", False, True),
        (SCIENTIST, f"{ML}/computes/read", False, True),
        (SCIENTIST, f"{ML}/computes/write", False, False),
        (SCIENTIST, f"{ML}/computes/start/write", False, False),
        (SCIENTIST, f"{ML}/delete", False, False),
        (SCIENTIST, f"{ML}/jobs/write", True, False),
        ({"actions": ["*/read"]}, f"{ML}/jobs/write", False, False),
        ({"actions": ["*"]}, f"{ML}/computes/write", False, True),
        ({"dataActions": ["a/*"], "notDataActions": ["a/b"]}, "a/b", True, False),
        ({"dataActions": ["a/*"]}, "a/b", True, True),
        ({}, f"{ML}/jobs/write", False, False),
    ],
)
def test_what_a_permission_allows(permission: Permission, action: str, data: bool, expected: bool) -> None:
    assert allows(permission, action, data=data) is expected


def test_what_is_missing_of_all_permissions() -> None:
    wanted = (f"{ML}/jobs/write", f"{ML}/computes/write", "other/read")
    assert missing((SCIENTIST, {"actions": ["other/*"]}), wanted) == (f"{ML}/computes/write",)
    assert missing((), wanted) == wanted


def test_the_command_that_assigns_a_role() -> None:
    assert assignment("AcrPush", "/r", "oid") == (
        "az role assignment create --assignee-object-id oid --assignee-principal-type ServicePrincipal --role AcrPush --scope /r"
    )
    assert "--assignee-principal-type User --role 'AzureML Data Scientist'" in assignment(
        "AzureML Data Scientist", "/w", "oid", user=True
    )
    assert "--assignee CLIENT_ID" in assignment("Reader", "/w", "")


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ([{"name": "r", "actions": ["pull"]}], {"pull"}),
        ([{"name": "r", "actions": ["pull"]}, {"name": "r", "actions": ["push"]}], {"pull", "push"}),
        ([{"name": "r", "actions": ["*"]}], {"*", "pull", "push", "delete"}),
        ([{"name": "other", "actions": ["pull"]}], set()),
        ([5, {"name": "r"}, {"name": "r", "actions": "pull"}], set()),
        ("pull", set()),
        (None, set()),
    ],
)
def test_what_a_token_of_a_registry_allows(access: object, expected: set[str]) -> None:
    assert actions_in({"access": access}, "r") == expected


def probe(compute: str | None = "c", size: str | None = None, repository: str | None = None) -> Probe:
    place = WorkspaceId(subscription_id="s", resource_group="g", name="w")
    wanted = Wanted(
        target=TargetConfig(name="azure", kind="azure"),
        workspace=place,
        compute=compute,
        size=size,
        repository=repository,
    )
    return Probe(wanted, AZURE_PUBLIC, environ={}, assertion=None, fetched=lambda _token: None)


@pytest.mark.parametrize(
    ("actions", "status", "words"),
    [
        (["*"], "ok", "pull, push and delete in my.azurecr.io/r"),
        (["Microsoft.ContainerRegistry/registries/*"], "ok", "pull, push and delete"),
        (["*/read"], "failed", "listBuildSourceUploadUrl/action, scheduleRun/action, runs/listLogSasUrl/action"),
        (None, "warning", "may not read its permissions in my.azurecr.io"),
    ],
)
def test_a_build_by_acr_tasks_needs_more_than_a_push(
    actions: list[str] | None, status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = probe(repository="r")
    made.wanted = dataclasses.replace(made.wanted, tasks=True)
    made.registry_host, made.registry_id = "my.azurecr.io", "/subscriptions/s/registries/my"
    granted = None if actions is None else ({"actions": actions},)
    monkeypatch.setattr(registry, "_granted", lambda *_args: {"pull", "push", "delete"})
    monkeypatch.setattr(Probe, "permissions", lambda *_args: granted)
    outcome = check_registry_role(made)
    assert outcome.status == status
    assert words in outcome.found
    if status != "ok":
        assert "Container Registry Tasks Contributor" in str(outcome.remedy)
        made.wanted = dataclasses.replace(made.wanted, tasks=False)
        assert check_registry_role(made).status == "ok"


def answering(**headers: str) -> Ask:
    def ask(_host: str) -> requests.Response:
        response = requests.Response()
        response.headers.update(headers)
        return response

    return ask


def refusing(error: requests.RequestException) -> Ask:
    def ask(_host: str) -> requests.Response:
        raise error

    return ask


NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("offset", "status", "found"),
    [
        (0, "ok", "agrees with login.microsoftonline.com"),
        (59, "ok", "agrees"),
        (61, "warning", "61 s ahead of login.microsoftonline.com"),
        (-200, "warning", "200 s behind"),
        (300, "failed", "300 s ahead of"),
        (-86_400, "failed", "86400 s behind"),
    ],
)
def test_the_clock(offset: float, status: str, found: str) -> None:
    outcome = check_clock(probe(), answering(Date=formatdate(NOW, usegmt=True)), now=lambda: NOW + offset)
    assert outcome.status == status
    assert found in outcome.found
    assert (status == "ok") == (not outcome.remedy)


@pytest.mark.parametrize("date", ["", "soon"])
def test_a_host_that_does_not_say_its_time(date: str) -> None:
    outcome = check_clock(probe(), answering(Date=date), now=lambda: NOW)
    assert outcome.status == "warning"
    assert check_clock(probe(), refusing(requests.ConnectionError()), now=lambda: NOW).status == "warning"


@pytest.mark.parametrize(
    ("error", "environ", "code", "remedy"),
    [
        (requests.exceptions.SSLError(), {}, 2, "REQUESTS_CA_BUNDLE and SSL_CERT_FILE to the CA of your proxy (none is set)"),
        (requests.exceptions.SSLError(), {"REQUESTS_CA_BUNDLE": "/ca.pem"}, 2, "(REQUESTS_CA_BUNDLE=/ca.pem)"),
        (requests.exceptions.ProxyError(), {"HTTPS_PROXY": "http://me:secret@proxy:1"}, 8, "by the proxy HTTPS_PROXY=http://proxy:1"),
        (requests.ConnectionError(), {}, 8, "Allow HTTPS to a.example in the firewall"),
        (requests.Timeout(), {"HTTPS_PROXY": "http://proxy:1"}, 8, "by the proxy HTTPS_PROXY=http://proxy:1 in the firewall"),
    ],
)  # fmt: skip
def test_a_host_that_is_not_reached(
    error: requests.RequestException, environ: Mapping[str, str], code: int, remedy: str
) -> None:
    outcome = reach(("a.example", "b.example"), environ, refusing(error))
    assert (outcome.status, outcome.exit_code) == ("failed", code)
    assert "a.example is not reached" in outcome.found
    assert "b.example is not reached" in outcome.found
    assert remedy in outcome.remedy
    assert "curl --head --verbose https://a.example/" in outcome.remedy
    assert "secret" not in outcome.remedy


def test_any_answer_means_that_a_host_is_reached() -> None:
    assert reach(("a.example",), {}, answering()).status == "ok"


TENANT = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"
WRONG_ISSUER = (
    f"The access token is from the wrong issuer 'https://sts.windows.net/{TENANT}/'. It must match the tenant "
    f"'https://sts.windows.net/{OTHER}/' associated with this subscription."
)


def told(monkeypatch: pytest.MonkeyPatch, made: Probe, *answers: tuple[str, int, Any]) -> Probe:
    """Let requests of *made* be answered by the ends of their paths: with a JSON object, or with code and message."""

    def fail(problem: str) -> ServiceError:
        return ServiceError(problem)

    def get(path: str, _what: str, _version: str, **_query: str) -> Reply:
        for end, status, answer in answers:
            if path.endswith(end):
                if status == 200:
                    return Reply(status=200, code="", message="", answer=Answer(answer, fail), headers={})
                code, message = answer
                return Reply(status=status, code=code, message=message, answer=None, headers={})
        return Reply(status=404, code="ResourceNotFound", message="not there", answer=None, headers={})

    monkeypatch.setattr(made, "get", get)
    made._sign_in = SignIn(None, way="cli")
    made.claims = {"tid": TENANT, "oid": "the-object"}
    made.resource = Answer({"location": "eastus", "properties": {"storageAccount": "/sub/store"}}, fail)
    return made


ENABLED = {"displayName": "mine", "state": "Enabled", "tenantId": TENANT}


@pytest.mark.parametrize(
    ("status", "answer", "expected", "code", "texts"),
    [
        (200, ENABLED, "ok", 8, ["mine (s), Enabled"]),
        (
            200,
            {**ENABLED, "tenantId": OTHER},
            "failed",
            2,
            [f"belongs to the tenant {OTHER}", f"az login --tenant {OTHER}"],
        ),
        (200, {**ENABLED, "state": "Disabled"}, "failed", 8, ["mine is Disabled", "az account show"]),
        (401, ("InvalidAuthenticationTokenTenant", WRONG_ISSUER), "failed", 2, [f"az login --tenant {OTHER}"]),
        (401, ("InvalidAuthenticationToken", "no"), "failed", 8, ["Azure refuses the token", "Sign in again"]),
        (403, ("AuthorizationFailed", "no"), "warning", 8, ["may not see the subscription"]),
        (404, ("SubscriptionNotFound", "no"), "failed", 2, ["az account list", "targets.azure.subscription-id"]),
    ],
)
def test_the_subscription(
    monkeypatch: pytest.MonkeyPatch, status: int, answer: Any, expected: str, code: int, texts: list[str]
) -> None:
    outcome = check_subscription(told(monkeypatch, probe(), ("/subscriptions/s", status, answer)))
    assert (outcome.status, outcome.exit_code) == (expected, code)
    for text in texts:
        assert text in f"{outcome.found} {outcome.remedy}"


def test_a_provider_that_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = ("/Microsoft.MachineLearningServices", 200, {"registrationState": "NotRegistered"})
    outcome = check_subscription(told(monkeypatch, probe(), ("/subscriptions/s", 200, ENABLED), provider))
    assert (outcome.status, outcome.remedy) == (
        "failed", "az provider register --namespace Microsoft.MachineLearningServices --subscription s",
    )  # fmt: skip


def cluster(priority: str = "Dedicated", running: int = 0) -> tuple[str, int, Any]:
    inner = {"vmSize": "Standard_NC6s_v3", "vmPriority": priority, "currentNodeCount": running}
    return "/computes/c", 200, {"properties": {"computeType": "AmlCompute", "properties": inner}}


def usage(name: str, limit: int, used: int) -> tuple[str, int, Any]:
    return "/usages", 200, {"value": [{"name": {"value": name}, "limit": limit, "currentValue": used}]}


SIZES = ("/vmSizes", 200, {"value": [{"name": "STANDARD_NC6S_V3", "vCPUs": 6, "family": "standardNCSv3Family"}]})


@pytest.mark.parametrize(
    ("compute", "found", "status", "remedy"),
    [
        (cluster(), usage("standardNCSv3Family", 12, 0), "ok", ""),
        (cluster(), usage("standardNCSv3Family", -1, 90), "ok", ""),
        (cluster(), usage("standardNCSv3Family", 0, 0), "failed", "--resource-name standardNCSv3Family"),
        (
            cluster(),
            usage("standardNCSv3Family", 12, 12),
            "warning",
            "--limit-object value=18 --resource-type dedicated",
        ),
        (cluster(running=1), usage("standardNCSv3Family", 12, 12), "ok", ""),
        (cluster("LowPriority"), usage("lowPriorityCores", 0, 0), "failed", "--resource-type lowPriority"),
        (cluster("LowPriority"), usage("TotalLowPriorityCores", 6, 0), "ok", ""),
        (cluster(), usage("other", 6, 0), "warning", "az ml compute list-usage --location eastus"),
        (cluster(), ("/usages", 403, ("AuthorizationFailed", "no")), "warning", "az ml compute list-usage"),
    ],
)
def test_the_quota(
    monkeypatch: pytest.MonkeyPatch,
    compute: tuple[str, int, Any],
    found: tuple[str, int, Any],
    status: str,
    remedy: str,
) -> None:
    outcome = check_quota(told(monkeypatch, probe(), compute, SIZES, found))
    assert outcome.status == status
    assert remedy in outcome.remedy
    assert bool(remedy) == bool(outcome.remedy)


@pytest.mark.parametrize(
    ("compute", "size", "status", "text"),
    [
        (None, None, "skipped", "serverless, of AzureML's default size"),
        ("azureml:local", None, "failed", "`local` is this machine"),
        (None, "Standard_NC6s_v3", "skipped", "serverless, Standard_NC6s_v3"),
        ("azureml:serverless", None, "skipped", "serverless, of AzureML's default size"),
        ("azureml:/subscriptions/s/computes/c", None, "skipped", "the job names a resource id"),
        ("azureml:c", None, "ok", "c: AmlCompute, Standard_NC6s_v3"),
        ("azureml:d", None, "failed", "az ml compute create --name d"),
    ],
)
def test_the_compute(
    monkeypatch: pytest.MonkeyPatch, compute: str | None, size: str | None, status: str, text: str
) -> None:
    outcome = check_compute(told(monkeypatch, probe(compute, size), cluster()))
    assert outcome.status == status
    assert text in f"{outcome.found} {outcome.remedy}"


@pytest.mark.parametrize("compute", [None, "serverless"])
def test_a_run_of_the_sdk_v1_needs_a_compute(monkeypatch: pytest.MonkeyPatch, compute: str | None) -> None:
    made = told(monkeypatch, probe(compute), cluster())
    made.wanted = dataclasses.replace(made.wanted, needs_compute=True)
    outcome = check_compute(made)
    assert (outcome.status, outcome.found) == ("failed", "neither the target nor the job names a compute")


PUSH = "--role AcrPush --scope /registries/acr"


@pytest.mark.parametrize(
    ("error", "granted", "status", "remedy"),
    [
        (None, {"pull", "push", "delete"}, "ok", ""),
        (None, {"pull", "push"}, "warning", "--role AcrDelete --scope /registries/acr"),
        (None, {"pull"}, "failed", PUSH),
        (None, set(), "failed", PUSH),
        (ServiceError("The registry acr.azurecr.io refused the sign-in: it answered 401."), set(), "failed", PUSH),
    ],
)
def test_the_role_at_the_registry(
    monkeypatch: pytest.MonkeyPatch, error: ServiceError | None, granted: set[str], status: str, remedy: str
) -> None:
    def grant(*_args: object) -> set[str]:
        if error is not None:
            raise error
        return granted

    monkeypatch.setattr(registry, "_granted", grant)
    made = told(monkeypatch, probe(repository="repo"))
    made.registry_host, made.registry_id = "acr.azurecr.io", "/registries/acr"
    outcome = registry.check_registry_role(made)
    assert outcome.status == status
    assert remedy in outcome.remedy


@pytest.mark.parametrize(("repository", "status"), [("repo", "failed"), (None, "skipped")])
def test_a_workspace_without_a_registry(monkeypatch: pytest.MonkeyPatch, repository: str | None, status: str) -> None:
    outcome = registry.check_registry(told(monkeypatch, probe(repository=repository)))
    assert (outcome.status, "w has no registry" in outcome.found) == (status, True)
    assert ("az acr create" in outcome.remedy) == (status == "failed")


def test_a_resource_id_that_would_lead_elsewhere_gets_no_token() -> None:
    with pytest.raises(ServiceError, match="is no resource id"):
        probe().get(".evil.example/x", "Looking", "2024-01-01")
