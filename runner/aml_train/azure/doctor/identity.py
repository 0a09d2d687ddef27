"""Checks of the sign-in, the workflow's OIDC subject, and the subscription."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from aml_train.azure.credentials import claims_of
from aml_train.azure.doctor.probe import Probe
from aml_train.azure.sign_in import credential_command, is_untrusted
from aml_train.core.diagnosis import Outcome, failed, misconfigured, ok, skipped, warning
from aml_train.core.errors import ServiceError

#: https://learn.microsoft.com/rest/api/resources/subscriptions/get and …/providers/get.
_SUBSCRIPTIONS: Final = "2022-12-01"
_PROVIDERS: Final = "2021-04-01"
_PROVIDER: Final = "Microsoft.MachineLearningServices"
_AGAIN: Final = "Sign in again (az login, or new credentials of the application), and compare the check clock."
_GUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
#: ``repo:OWNER@ID/REPOSITORY@ID:…`` of repositories made, renamed or transferred since 15 July 2026, and of those that opted in:
#: https://docs.github.com/actions/reference/security/oidc#immutable-subject-claims.
_IMMUTABLE: Final = re.compile(r"repo:[^/@:]+@\d+/[^/@:]+@\d+(?P<rest>:.*)?")
_BY_NAME: Final = re.compile(r"repo:[^/@:]+/[^/@:]+(?P<rest>:.*)?")


def check_sign_in(probe: Probe) -> Outcome:
    """Sign in, and show who and in which tenant."""
    identity = probe.sign_in()
    try:
        token = identity.token(probe.cloud.scope)
    except ServiceError as error:
        if identity.way == "oidc" and is_untrusted(error.message):
            return failed(error.message, "The check oidc-subject has the command.")
        raise
    probe.claims = claims_of(token)
    return ok(f"{_who(probe.claims)}, tenant {probe.claims.get('tid') or 'unknown'}, with {identity.title}")


def _who(claims: Mapping[str, Any]) -> str:
    for name in ("upn", "unique_name", "preferred_username"):
        if claims.get(name):
            return str(claims[name])
    return f"application {claims.get('appid') or claims.get('azp') or 'unknown'}, object {claims.get('oid') or 'unknown'}"


def check_subject(probe: Probe) -> Outcome:
    """Show the subject of the workflow's token, and whether Azure trusts it."""
    identity = probe.sign_in()
    if identity.way != "oidc" or probe.assertion is None:
        return skipped(f"the sign-in is {identity.title}; only a workflow on GitHub has a subject")
    claims = claims_of(probe.assertion(probe.cloud.federated_audience))
    subject = str(claims.get("sub") or "")
    form, other = forms(claims)
    try:
        identity.token(probe.cloud.scope)
    except ServiceError as error:
        if not is_untrusted(error.message):
            return warning(f"{subject} ({form}); whether Azure trusts it is not known", "See the check sign-in.")
        also = f" A credential with the other form, {other}, does not match it." if other else ""
        return failed(
            f"no federated credential fits the token's subject {subject} ({form}).{also}",
            credential_command(claims, probe.environ.get("AZURE_CLIENT_ID") or "CLIENT_ID"),
        )
    return ok(f"{subject} ({form}) is trusted")


def forms(claims: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the subject's form, and the subject in the other form.

    The other one is empty if the claims do not say it.
    """
    subject = str(claims.get("sub") or "")
    owner, _, name = str(claims.get("repository") or "").partition("/")
    if found := _IMMUTABLE.fullmatch(subject):
        return "immutable form", f"repo:{owner}/{name}{found['rest'] or ''}" if name else ""
    if found := _BY_NAME.fullmatch(subject):
        owner_id, repository_id = claims.get("repository_owner_id"), claims.get("repository_id")
        known = name and owner_id and repository_id
        return "form by name", f"repo:{owner}@{owner_id}/{name}@{repository_id}{found['rest'] or ''}" if known else ""
    return "form of the organization or repository's own", ""


def check_subscription(probe: Probe) -> Outcome:
    """Look the subscription up: its tenant, its state, and AzureML's provider."""
    wanted = probe.wanted.workspace.subscription_id
    reply = probe.get(
        f"/subscriptions/{quote(wanted, safe='')}", f"Looking for the subscription {wanted}", _SUBSCRIPTIONS
    )
    listing = "az account list --all --output table"
    if reply.status == 401:
        tenant = _tenant_in(reply.message, reply.headers)
        if tenant or "tenant" in f"{reply.code} {reply.message}".lower():
            return _elsewhere(probe, f"{reply.code}: {reply.message}", tenant)
        return failed(f"Azure refuses the token: {reply.code}: {reply.message}", _AGAIN)
    if reply.status == 403:
        text = f"the identity may not see the subscription {wanted}; a role on the workspace alone can be enough"
        return warning(text, f"If the next checks fail: {listing}")
    if reply.answer is None:
        return misconfigured(
            f"{wanted}: {reply.code or reply.status}: {reply.message}",
            f"{listing} lists those that you see; correct {probe.key('subscription-id')}.",
        )
    name = reply.answer.optional_text("displayName") or wanted
    tenant, state = reply.answer.optional_text("tenantId") or "", reply.answer.optional_text("state") or ""
    if tenant and probe.claims.get("tid") and tenant.lower() != str(probe.claims["tid"]).lower():
        return _elsewhere(probe, f"{name} belongs to the tenant {tenant}", tenant)
    if state and state not in ("Enabled", "PastDue"):
        return failed(f"{name} is {state}", f"az account show --subscription {wanted}; its owner must enable it.")
    return _provider(probe, name, state)


def _provider(probe: Probe, name: str, state: str) -> Outcome:
    subscription = probe.wanted.workspace.subscription_id
    path = f"/subscriptions/{quote(subscription, safe='')}/providers/{_PROVIDER}"
    reply = probe.get(path, f"Looking for the provider {_PROVIDER}", _PROVIDERS)
    registered = reply.answer.optional_text("registrationState") if reply.answer is not None else None
    if registered and registered not in ("Registered", "Registering"):
        command = f"az provider register --namespace {_PROVIDER} --subscription {subscription}"
        return failed(f"{name}: the provider {_PROVIDER} is {registered}", command)
    return ok(f"{name} ({subscription}), {state or 'state unknown'}")


def _elsewhere(probe: Probe, found: str, tenant: str) -> Outcome:
    """Return the result for an identity of another tenant."""
    mine = probe.claims.get("tid") or "unknown"
    identity = probe.sign_in()
    where = tenant or "TENANT"
    login = {"cli": f"az login --tenant {where}", "azd": f"azd auth login --tenant-id {where}"}.get(identity.way)
    remedy = login or f"Set AZURE_TENANT_ID={where} (the input tenant-id), with an application of that tenant."
    return misconfigured(f"the sign-in is of the tenant {mine}; {found}", remedy)


def _tenant_in(message: str, headers: Mapping[str, str]) -> str:
    """Return the tenant that a refusal asks for; the last that it names."""
    named = _GUID.findall(f"{headers.get('WWW-Authenticate', '')} {message}")
    return str(named[-1]) if named else ""
