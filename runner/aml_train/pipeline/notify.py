"""Report how a run ended to webhooks. The verdict never depends on them.

A webhook's address is a secret: no message names more of it than the variable that holds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aml_train.config import NotifyConfig
from aml_train.core.masking import Masker
from aml_train.core.retry import retry_after
from aml_train.pipeline.notify_formats import body_of
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import RunResult

if TYPE_CHECKING:
    import requests

#: Of the payload. It grows by new fields; a change of a field is another version.
VERSION: Final = 1
_MOST_TEXT: Final = 4_000
_MOST_METRICS: Final = 100
_MOST_RULES: Final = 100
_SECONDS: Final = (5.0, 10.0)
#: After an interruption there are only a few seconds.
_HURRIED: Final = (2.0, 3.0)
_ATTEMPTS: Final = 2
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class BadAddressError(ValueError):
    """The address of a webhook cannot be used; the message does not have it."""


def payload(result: RunResult, plan: Plan, run_url: str | None, masker: Masker) -> dict[str, Any]:
    """Return how a run ended, as plain values for JSON; see docs/notify.md. Pure.

    Args:
        result: the run's.
        plan: what was run.
        run_url: the workflow's run; None outside of one.
        masker: hides secrets in texts.
    """
    facts, gate, job = result.facts(), result.gate, result.job
    links = {"run": run_url, "job": job.view.studio_url if job is not None else None}
    commit = plan.commit
    document: dict[str, Any] = {
        "version": VERSION,
        "status": result.status,
        "exit_code": result.exit_code,
        "message": _text(result.message, masker),
        "hint": _text(result.hint or "", masker),
        "project": str(plan.project) if plan.project is not None else None,
        "target": plan.names.target,
        "commit": commit.sha if commit is not None else None,
        "branch": commit.branch if commit is not None else None,
        "job": {"name": job.name, "experiment": job.view.experiment, "attached": job.attached} if job else None,
        "gate": None,
        "metrics": dict(sorted((gate.metrics if gate else {}).items())[:_MOST_METRICS]),
        "model": {"name": result.model.name, "version": result.model.version} if result.model else None,
        "image": facts.get("image"),
        "cost": {"amount": facts["cost"], "currency": facts["currency"]} if facts.get("cost") is not None else None,
        "links": {name: link for name, link in links.items() if link},
    }
    if gate is not None and gate.decision.rules:
        rules = [
            {
                "metric": one.metric,
                "rule": one.rule.text,
                "value": one.value,
                "limit": one.limit,
                "verdict": one.verdict,
                "reason": _text(one.reason, masker),
                "where": one.where,
            }
            for one in gate.decision.rules[:_MOST_RULES]
        ]
        document["gate"] = {"verdict": gate.decision.word, "rules": rules}
    return document


def send_notifications(
    notify: tuple[NotifyConfig, ...],
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Send a payload to each webhook that wants it; return why some did not get it.

    Args:
        notify: the webhooks.
        document: see :func:`payload`.
        environ: holds the addresses, and the proxies.
        sleep: waits before the second attempt.
    """
    problems = []
    for one in notify:
        if one.wants(int(document["exit_code"])):
            problem = _send(one, document, environ, sleep)
            if problem:
                problems.append(f"The webhook of {one.url_env} was not notified: {problem}.")
    return problems


def check_address(url: str) -> str:
    """Return an address that may be sent to.

    Raises:
        BadAddressError: it is none, or neither https nor http on this machine.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadAddressError("its value is no address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise BadAddressError("its value is no address of https")
    if parts.scheme == "http" and host not in _LOCAL:
        raise BadAddressError("its address is http, and only https keeps it secret")
    return url.strip()


def _send(
    one: NotifyConfig, document: Mapping[str, Any], environ: Mapping[str, str], sleep: Callable[[float], None]
) -> str:
    """Send the payload to one webhook; return the problem, or nothing."""
    import requests

    from aml_train.core.http_client import Session, exchange

    value = environ.get(one.url_env, "")
    if not value.strip():
        return "the variable is not set"
    try:
        url = check_address(value)
    except BadAddressError as error:
        return str(error)
    hurried = document["status"] == "cancelled"
    problem = ""
    with Session() as session:
        _use_environment(session, url, environ)
        for attempt in range(_ATTEMPTS):
            try:
                response = exchange(
                    session,
                    "POST",
                    url,
                    json=body_of(one.format, document),
                    timeout=_HURRIED if hurried else _SECONDS,
                    allow_redirects=False,
                    most=64 * 1024,
                )
            except requests.RequestException as error:
                # The error's text has the address.
                problem = f"no answer ({type(error).__name__})"
                continue
            if 200 <= response.status_code < 300:
                return ""
            problem = f"it answered {response.status_code}"
            if response.status_code < 500 and response.status_code != 429:
                return problem
            if attempt + 1 < _ATTEMPTS and not hurried:
                sleep(min(retry_after(response.headers) or 1.0, 5.0))
    return problem


def _use_environment(session: requests.Session, url: str, environ: Mapping[str, str]) -> None:
    """Use the proxy and the CA bundle of *environ*, not those of this process.

    A run with the local AzureML has changed these.
    """
    from requests.utils import should_bypass_proxies

    def value(name: str) -> str | None:
        return environ.get(name.lower()) or environ.get(name)

    session.trust_env = False
    proxy = value("HTTPS_PROXY" if url.startswith("https:") else "HTTP_PROXY") or value("ALL_PROXY")
    if proxy and not should_bypass_proxies(url, no_proxy=value("NO_PROXY") or ""):
        session.proxies = {"https": proxy, "http": proxy}
    if bundle := environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE"):
        session.verify = bundle


def _text(text: str, masker: Masker) -> str:
    shown = masker.mask(text)
    return shown if len(shown) <= _MOST_TEXT else f"{shown[:_MOST_TEXT]}…"
