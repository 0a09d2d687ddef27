"""The browser of sign-ins to the local AzureML.

A program that signs a person in opens a browser, which shows a page of Entra ID and then brings a code back to the program, on
a port of this machine. Browsers do not use the local AzureML's proxy, so this module replaces them: it fetches the page, which grants at once.
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow
"""

from __future__ import annotations

import os
import shlex
import sys
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urlsplit

import requests

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.local.environment import client_environment
from aml_train.local.settings import EmulatorInfo

LOGIN_HOSTS: Final = frozenset({"login.microsoftonline.com", "login.windows.net", "login.microsoft.com"})
_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 300.0
"""How long a program may take until it reads its answer; azure-identity waits as long for it."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _Form(HTMLParser):
    """The first form of a page, and the page's text."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = values.get("action", "")
        elif tag == "input" and values.get("name"):
            self.fields[values["name"]] = values.get("value", "")

    def handle_data(self, data: str) -> None:
        self.text += data


def browser_variables(python: str) -> dict[str, str]:
    """Return the variable that has programs open this browser.

    Args:
        python: the interpreter that has aml-train; a browser after a failed one is tried as always.
    """
    return {"BROWSER": f"{shlex.quote(python)} -m aml_train emulator sign-in %s"}


def is_sign_in(address: str) -> bool:
    """Return whether an address is that of a sign-in, which the local AzureML answers."""
    parts = urlsplit(address)
    return parts.scheme == "https" and parts.hostname in LOGIN_HOSTS


def sign_in_page(info: EmulatorInfo, address: str) -> tuple[str, dict[str, str]]:
    """Return the program's address and the form's fields of the page at *address*.

    Without fields it is an address to get.

    Raises:
        InvalidError: the page refuses, or would send a code to another machine.
        ServiceError: the local AzureML does not answer.
    """
    variables = client_environment(info, os.environ)
    try:
        answer = requests.get(
            address,
            proxies={"https": variables["HTTPS_PROXY"]},
            verify=variables["REQUESTS_CA_BUNDLE"],
            timeout=_SECONDS,
            allow_redirects=False,
        )
    except requests.RequestException as error:
        raise ServiceError(
            f"The local AzureML does not answer the sign-in: {type(error).__name__}.",
            hint="Check that it runs: aml-train emulator status.",
        ) from error
    form = _Form()
    form.feed(answer.text)
    goal = answer.headers.get("Location") or form.action
    if not answer.ok or not goal:
        raise InvalidError(f"The local AzureML refused the sign-in: {form.text.strip() or answer.status_code}")
    if urlsplit(goal).hostname not in _LOOPBACK:
        raise InvalidError(f"The sign-in would send its code to {urlsplit(goal).hostname}, which is another machine.")
    return goal, form.fields


def answer_program(goal: str, fields: dict[str, str]) -> None:
    """Bring the code to the program that waits for it, in a separate process.

    The program waits for its browser's start first, and reads the answer only then.

    Raises:
        ServiceError: no process can be made.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if os.fork() != 0:
            return
    except OSError as error:
        raise ServiceError(f"The sign-in cannot be completed: {error.strerror}.") from error
    status = 1
    try:
        os.setsid()
        with requests.Session() as session:
            session.trust_env = False
            send = (
                session.post(goal, data=fields, timeout=_ANSWER_SECONDS)
                if fields
                else session.get(goal, timeout=_ANSWER_SECONDS, allow_redirects=False)
            )
        status = 0 if send.ok else 1
    finally:
        os._exit(status)
