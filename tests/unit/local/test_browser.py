"""The browser of sign-ins: which page it answers, and whom."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import requests

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.local import browser
from tests.unit.local.test_environment import INFO

ADDRESS = "https://login.microsoftonline.com/organizations/oauth2/v2.0/authorize?client_id=x"
FORM = (
    '<form method="POST" action="http://localhost:8400"><input type="hidden" name="code" value="a&amp;b">'
    '<input name="state" value="s"><input type="submit"></form>'
)


class Page:
    """Stands in for the page; remembers how it was asked."""

    def __init__(self, *, text: str = "", status: int = 200, location: str = "") -> None:
        self.answer = requests.Response()
        self.answer.status_code = status
        self.answer._content = text.encode()
        self.answer.headers.update({"Location": location} if location else {})
        self.asked: dict[str, Any] = {}

    def __call__(self, address: str, **options: Any) -> requests.Response:
        self.asked = {"address": address, **options}
        return self.answer


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("aml_train.local.environment._cache_folder", lambda _name: tmp_path)


def shown(monkeypatch: pytest.MonkeyPatch, page: Page) -> tuple[str, dict[str, str]]:
    monkeypatch.setattr(requests, "get", page)
    return browser.sign_in_page(INFO, ADDRESS)


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        (ADDRESS, True),
        (ADDRESS.replace("https", "http"), False),
        ("https://example.com/login.microsoftonline.com", False),
        ("https://login.microsoftonline.com.example.com/", False),
        ("file:///etc/passwd", False),
    ],
)
def test_addresses_of_sign_ins(address: str, is_one: bool) -> None:
    assert browser.is_sign_in(address) is is_one


def test_a_form_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = Page(text=FORM)
    assert shown(monkeypatch, page) == ("http://localhost:8400", {"code": "a&b", "state": "s"})
    assert page.asked["proxies"] == {"https": "http://127.0.0.1:1234"}
    assert page.asked["verify"] == str(tmp_path / "ca.pem")


def test_a_redirection_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = "http://127.0.0.1:1/?code=x"
    assert shown(monkeypatch, Page(status=302, location=goal)) == (goal, {})


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (Page(status=400, text="<p>AADSTS50011: no</p>"), "refused the sign-in: AADSTS50011: no"),
        (Page(), "refused the sign-in: 200"),
        (Page(status=302, location="https://example.com/?code=x"), "code to example.com, which is another machine"),
    ],
)
def test_a_page_that_is_not_answered(monkeypatch: pytest.MonkeyPatch, page: Page, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        shown(monkeypatch, page)


def test_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> Any:
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", refuse)
    with pytest.raises(ServiceError, match=r"does not answer the sign-in: ConnectionError"):
        browser.sign_in_page(INFO, ADDRESS)


def test_no_process_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fail)
    with pytest.raises(ServiceError, match="cannot be completed: Resource temporarily unavailable"):
        browser.answer_program("http://localhost", {})


def test_the_variable_is_a_command_with_a_place_for_the_address() -> None:
    assert browser.browser_variables("/opt/my python") == {
        "BROWSER": "'/opt/my python' -m aml_train emulator sign-in %s"
    }
