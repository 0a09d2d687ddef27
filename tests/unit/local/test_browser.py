"""The browser of sign-ins: which page it answers, and whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests

from aml_train.core.errors import InvalidError
from aml_train.local import browser
from tests.unit.local.test_environment import INFO

ADDRESS = "https://login.microsoftonline.com/organizations/oauth2/v2.0/authorize?client_id=x"


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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


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


def test_the_variable_is_a_command_with_a_place_for_the_address() -> None:
    assert browser.browser_variables("/opt/my python") == {
        "BROWSER": "'/opt/my python' -m aml_train emulator sign-in %s"
    }
