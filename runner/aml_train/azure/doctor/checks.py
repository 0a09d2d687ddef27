"""The checks of a workspace in Azure, in their order; those of hosts, sign-in and subscription."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlsplit

import requests

from aml_train.azure.clouds import cloud_named
from aml_train.azure.credentials import Assertion, claims_of
from aml_train.azure.doctor.probe import Probe, Wanted
from aml_train.azure.doctor.registry import check_registry, check_registry_role, check_storage
from aml_train.azure.doctor.workspace import check_compute, check_workspace, check_workspace_role
from aml_train.azure.sign_in import Fetched
from aml_train.core.diagnosis import Check, Outcome, failed, misconfigured, ok, warning
from aml_train.core.http_client import Session, exchange
from aml_train.core.threads import in_background

#: https://learn.microsoft.com/rest/api/resources/subscriptions/get.
_SUBSCRIPTIONS: Final = "2022-12-01"
_AGAIN: Final = (
    "Sign in again (az login, or new credentials of the application), and see that this machine's clock is right."
)
_GUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def check_sign_in(probe: Probe) -> Outcome:
    """Sign in, and show who and in which tenant."""
    identity = probe.sign_in()
    token = identity.token(probe.cloud.scope)
    probe.claims = claims_of(token)
    return ok(f"{_who(probe.claims)}, tenant {probe.claims.get('tid') or 'unknown'}, with {identity.title}")


def _who(claims: Mapping[str, Any]) -> str:
    for name in ("upn", "unique_name", "preferred_username"):
        if claims.get(name):
            return str(claims[name])
    return f"application {claims.get('appid') or claims.get('azp') or 'unknown'}, object {claims.get('oid') or 'unknown'}"


def check_subscription(probe: Probe) -> Outcome:
    """Look the subscription up: its tenant and its state."""
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
    return ok(f"{name} ({wanted}), {state or 'state unknown'}")


def _elsewhere(probe: Probe, found: str, tenant: str) -> Outcome:
    """Return the result for an identity of another tenant."""
    mine = probe.claims.get("tid") or "unknown"
    identity = probe.sign_in()
    where = tenant or "TENANT"
    login = f"az login --tenant {where}" if identity.way == "cli" else ""
    remedy = login or f"Set AZURE_TENANT_ID={where} (the input tenant-id), with an application of that tenant."
    return misconfigured(f"the sign-in is of the tenant {mine}; {found}", remedy)


def _tenant_in(message: str, headers: Mapping[str, str]) -> str:
    """Return the tenant that a refusal asks for; the last that it names."""
    named = _GUID.findall(f"{headers.get('WWW-Authenticate', '')} {message}")
    return str(named[-1]) if named else ""


_TIMEOUT: Final = (10.0, 10.0)
_PROXY_NAMES: Final = ("HTTPS_PROXY", "https_proxy")
_CA_NAMES: Final = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")

Ask = Callable[[str], requests.Response]
"""Sends HEAD to the root of a host; any answer means that it is reached."""


def ask_host(host: str) -> requests.Response:
    """Send HEAD to ``https://HOST/`` without credentials."""
    with Session() as session:
        return exchange(session, "HEAD", f"https://{host}/", timeout=_TIMEOUT, allow_redirects=False)


def check_hosts(probe: Probe, ask: Ask = ask_host) -> Outcome:
    """Reach the hosts that every run needs first, at once; the first fault gives the remedy."""
    asked: dict[str, Future[requests.Response]] = {}
    for host in (probe.cloud.authority, urlsplit(probe.cloud.arm).netloc):
        asked[host] = in_background(lambda host=host: ask(host), f"reach {host}")  # type: ignore[misc]
    faults: dict[str, requests.RequestException] = {}
    for host, future in asked.items():
        try:
            future.result()
        except requests.RequestException as error:
            faults[host] = error
    if not faults:
        return ok(", ".join(asked))
    host, first = next(iter(faults.items()))
    found = "; ".join(f"{name} is not reached: {type(error).__name__}" for name, error in faults.items())
    return (misconfigured if isinstance(first, requests.exceptions.SSLError) else failed)(
        found, _remedy(host, first, probe.environ)
    )


def _remedy(host: str, error: requests.RequestException, environ: Mapping[str, str]) -> str:
    curl = f"curl --head --verbose https://{host}/"
    proxy = next((f"{name}={environ[name]}" for name in _PROXY_NAMES if environ.get(name)), "")
    if isinstance(error, requests.exceptions.SSLError):
        bundle = next((f"{name}={environ[name]}" for name in _CA_NAMES if environ.get(name)), "none is set")
        return f"Set REQUESTS_CA_BUNDLE and SSL_CERT_FILE to the CA of your proxy ({bundle}). {curl}"
    by = f" by the proxy {_without_user(proxy)}" if proxy else ""
    if isinstance(error, requests.exceptions.ProxyError):
        return f"{host} is refused{by}, or the proxy does not answer: allow the host there, or add it to NO_PROXY. {curl}"
    return (
        f"Allow HTTPS to {host}{by} in the firewall, or correct HTTPS_PROXY and NO_PROXY; a private endpoint needs a runner in "
        f"its network. {curl}"
    )


def _without_user(text: str) -> str:
    scheme, sign, rest = text.partition("://")
    return f"{scheme}{sign}{rest.rpartition('@')[2]}" if sign else text


#: az may take a minute for a token, the sign-in in Azure several attempts.
_SIGN_IN_SECONDS: Final = 90.0


def azure_checks(
    wanted: Wanted, *, environ: Mapping[str, str], assertion: Assertion | None, fetched: Fetched
) -> tuple[Check, ...]:
    """Return the checks of a workspace; each reads and changes nothing.

    Args:
        wanted: what the configuration wants there.
        environ: the process's environment, which chooses the sign-in and the cloud.
        assertion: fetches federated assertions; None if the caller cannot.
        fetched: receives each token.

    Raises:
        InvalidError: there is no such cloud.
    """
    cloud = cloud_named(environ.get("AZURE_ENVIRONMENT", ""))
    probe = Probe(wanted, cloud, environ=environ, assertion=assertion, fetched=fetched)
    return (
        Check(name="network", run=partial(check_hosts, probe)),
        Check(name="sign-in", run=partial(check_sign_in, probe), needs=("network",), seconds=_SIGN_IN_SECONDS),
        Check(name="subscription", run=partial(check_subscription, probe), needs=("sign-in",)),
        Check(name="workspace", run=partial(check_workspace, probe), needs=("subscription",)),
        Check(name="workspace-role", run=partial(check_workspace_role, probe), needs=("workspace",)),
        Check(name="compute", run=partial(check_compute, probe), needs=("workspace",)),
        Check(name="registry", run=partial(check_registry, probe), needs=("workspace",)),
        Check(name="registry-role", run=partial(check_registry_role, probe), needs=("registry",)),
        Check(name="storage", run=partial(check_storage, probe), needs=("workspace",)),
    )
