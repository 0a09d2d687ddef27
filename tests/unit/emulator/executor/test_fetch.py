"""Inputs from the web, and refused addresses: without a network."""

from __future__ import annotations

import io

import pytest
import requests

from aml_emulator.executor import fetch
from aml_emulator.executor.archive import ContentError
from aml_emulator.executor.spec import InputSpec


class Pages(requests.Session):
    """Answers by address."""

    def __init__(self, **answers: list[tuple[int, dict[str, str], bytes] | Exception]) -> None:
        super().__init__()
        self.answers = {f"https://{host}.example.org/x": list(items) for host, items in answers.items()}
        self.asked: list[str] = []

    def get(self, url: str | bytes, **_settings: object) -> requests.Response:
        self.asked.append(str(url))
        answer = self.answers[str(url)].pop(0)
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, response.reason = answer[0], "as planned"
        response.headers.update(answer[1])
        response.raw = io.BytesIO(answer[2])
        return response


def get(pages: Pages, url: str = "https://a.example.org/x") -> bytes:
    item = InputSpec(name="d", kind="uri_file", url=url)
    with fetch.fetched((item,), lambda: None, session=lambda: pages) as files:
        return files["d"].read() if files["d"].seek(0) == 0 else b""


def test_a_file_is_had_after_a_redirect_and_a_failure() -> None:
    away: tuple[int, dict[str, str], bytes] = (302, {"Location": "https://b.example.org/x"}, b"")
    short: tuple[int, dict[str, str], bytes] = (200, {"Content-Length": "5"}, b"hel")
    pages = Pages(a=[away, away, away], b=[(503, {}, b""), short, (200, {"Content-Length": "5"}, b"hello")])
    assert get(pages) == b"hello"
    assert len(pages.asked) == 6


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([(200, {}, b"hello")], None),
        ([(302, {"Location": "https://b.example.org/x"}, b"")], None),
        ([(503, {}, b"")], None),
        ([(404, {}, b"")], "the server answers 404 as planned"),
        ([requests.ConnectionError("secret")], "ConnectionError"),
        ([(302, {"Location": "https://other.blob.core.windows.net/x"}, b"")], "belongs to a real cloud"),
    ],
)
def test_a_file_is_looked_for_before_it_is_fetched(
    answers: list[tuple[int, dict[str, str], bytes] | Exception], why: str | None
) -> None:
    pages = Pages(a=answers, b=[(200, {}, b"")])
    found = fetch.why_unreachable("https://a.example.org/x?sig=secret".partition("?")[0], session=lambda: pages)
    assert found is None if why is None else why in str(found)
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([(404, {}, b"")], "the server answers 404 as planned"),
        ([(302, {"Location": "http://169.254.169.254/metadata"}, b"")], "is this machine itself"),
        ([(302, {"Location": "https://other.blob.core.windows.net/x"}, b"")], "belongs to a real cloud"),
        ([(302, {"Location": "https://management.azure.com/x"}, b"")], "is a service of the workspace"),
        ([(302, {"Location": "https://a.example.org/x"}, b"")] * 10, "leads on more than 10 times"),
        ([requests.ConnectionError("secret")] * 3, "after 3 attempts: ConnectionError"),
    ],
)
def test_what_cannot_be_had_is_told_without_the_query(
    answers: list[tuple[int, dict[str, str], bytes] | Exception], message: str
) -> None:
    pages = Pages(a=answers)
    pages.answers["https://a.example.org/x?sig=secret"] = pages.answers["https://a.example.org/x"]
    with pytest.raises(ContentError, match=message) as caught:
        get(pages, "https://a.example.org/x?sig=secret")
    assert "The input 'd' cannot be read from https://a.example.org/x" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_folder_on_the_web_fails_the_job_and_not_its_submission() -> None:
    item = InputSpec(name="d", kind="uri_folder", url="https://a.example.org/x/", uri="https://a.example.org/x/")
    with (
        pytest.raises(ContentError, match=r"'d' \(https://a.example.org/x/\) is a uri_folder; .* use uri_file"),
        fetch.fetched((item,), lambda: None, session=Pages),
    ):
        pass
