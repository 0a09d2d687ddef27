"""Checks of the hosts that a run reaches, and of the clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final
from urllib.parse import urlsplit

import requests

from aml_train.azure.doctor.probe import Probe
from aml_train.core.answers import date_of
from aml_train.core.diagnosis import Outcome, failed, misconfigured, ok, skipped, warning
from aml_train.core.http_client import Session, exchange
from aml_train.core.threads import in_background

_TIMEOUT: Final = (10.0, 10.0)
#: Entra ID refuses assertions and tokens whose times are more than five minutes off (AADSTS700024):
#: https://learn.microsoft.com/entra/identity-platform/reference-error-codes.
_MOST_SECONDS: Final = 300.0
_DOUBTFUL_SECONDS: Final = 60.0
_PROXY_NAMES: Final = ("HTTPS_PROXY", "https_proxy")
_CA_NAMES: Final = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")

Ask = Callable[[str], requests.Response]
"""Sends HEAD to the root of a host; any answer means that it is reached."""


def ask_host(host: str) -> requests.Response:
    """Send HEAD to ``https://HOST/`` without credentials."""
    with Session() as session:
        return exchange(session, "HEAD", f"https://{host}/", timeout=_TIMEOUT, allow_redirects=False)


def check_hosts(probe: Probe, ask: Ask = ask_host) -> Outcome:
    """Reach the hosts that every run needs first."""
    return reach((probe.cloud.authority, urlsplit(probe.cloud.arm).netloc), probe.environ, ask)


def check_workspace_hosts(probe: Probe, ask: Ask = ask_host) -> Outcome:
    """Reach the workspace's own services, its storage and its registry."""
    resource = probe.resource
    if resource is None:
        return skipped("the workspace is not known")
    account = (resource.optional_text("properties.storageAccount") or "").rpartition("/")[2]
    tracking = resource.optional_text("properties.mlFlowTrackingUri") or ""
    discovery = resource.optional_text("properties.discoveryUrl") or ""
    hosts = [_host(discovery), _host(tracking), f"{account}.blob.{probe.storage_suffix}" if account else ""]
    hosts.append(probe.wanted.target.registry or "")  # the check registry-role reaches the workspace's
    return reach(dict.fromkeys(host for host in hosts if host), probe.environ, ask)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def reach(hosts: Iterable[str], environ: Mapping[str, str], ask: Ask) -> Outcome:
    """Reach all hosts at once; the first fault gives the remedy."""
    asked: dict[str, Future[requests.Response]] = {}
    for host in hosts:
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
        found, _remedy(host, first, environ)
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


def check_clock(
    probe: Probe,
    ask: Ask = ask_host,
    now: Callable[[], float] = time.time,
) -> Outcome:
    """Compare this machine's clock with that of the sign-in service."""
    host = probe.cloud.authority
    began = now()
    try:
        response = ask(host)
    except requests.RequestException as error:
        return warning(f"the time of {host} is not known: {type(error).__name__}", "See the check network.")
    ended = now()
    there = date_of(response.headers)
    if there is None:
        return warning(f"{host} does not say its time", "date --utc")
    # The header has whole seconds.
    late = (began + ended) / 2 - there.timestamp()
    text = f"{abs(late):.0f} s {'ahead of' if late > 0 else 'behind'} {host}"
    remedy = "sudo sntp -sS time.apple.com" if sys.platform == "darwin" else "sudo timedatectl set-ntp true"
    if abs(late) >= _MOST_SECONDS:
        return misconfigured(f"the clock is {text}: sign-ins are refused", remedy)
    if abs(late) >= _DOUBTFUL_SECONDS:
        return warning(f"the clock is {text}", remedy)
    return ok(f"the clock agrees with {host}")
