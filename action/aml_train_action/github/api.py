"""GitHub's REST interface, with the workflow's own token.

Source: https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api and
https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api (403 and 429, with ``Retry-After``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests

from aml_train.core import retry as retries
from aml_train.core.answers import Answer
from aml_train.core.errors import Fault, InvalidError, ServiceError
from aml_train.core.http_client import Session, TooLargeError, answer_of, exchange
from aml_train.core.retry import retry_after
from aml_train.core.text import harmless

_ATTEMPTS: Final = 5
_TIMEOUT: Final = (10.0, 60.0)
_OUTAGE: Final = "Run the workflow again; https://www.githubstatus.com reports outages."
_PER_PAGE: Final = 100
_MOST_PAGES: Final = 100
_VERSION: Final = "2022-11-28"
_MOST_BYTES: Final = 16 << 20
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


class LimitedError(ServiceError):
    """GitHub refused a request because there were too many."""


class NotFoundError(ServiceError):
    """GitHub answered 404 or 410: it is not there, or the token may not see it."""


@dataclass(frozen=True, kw_only=True)
class Api:
    """Requests to GitHub, retried and bounded.

    Attributes:
        address: of the interface, such as ``https://api.github.com``.
        graphql: of the interface for GraphQL.
        repository: ``OWNER/NAME``, in which paths that begin with no ``/`` are.
        token: the workflow's; it is in no error.
        session: makes the requests.
    """

    address: str
    graphql: str
    repository: str
    token: str = field(repr=False)
    session: requests.Session = field(repr=False)

    def get(self, path: str, **params: str | int) -> Answer:
        """Return the object at *path*."""
        return self._answer(self._send("GET", path, params=params), path)

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        """Send *body* as JSON; return the answer."""
        return self._answer(self._send(method, path, json=dict(body)), path)

    def delete(self, path: str) -> None:
        """Delete the object at *path*."""
        self._send("DELETE", path)

    def pages(self, path: str, *, key: str = "", **params: str | int) -> Iterator[Answer]:
        """Yield every object of a list.

        Args:
            path: of the list.
            key: the member that has the list; empty if the answer itself is one.
            params: of the query.

        Raises:
            ServiceError: the list has more pages than are read.
        """
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get(path, per_page=_PER_PAGE, page=page, **params)
            found = answer.at(key).value if key else answer.value
            if not isinstance(found, list):
                raise ServiceError(f"GitHub's answer to {path} is no list.")
            for place, one in enumerate(found):
                yield Answer(one, answer.fail, f"{key}.{place}" if key else str(place))
            if len(found) < _PER_PAGE:
                return
        raise ServiceError(f"GitHub's list {path} has more than {_MOST_PAGES * _PER_PAGE} entries.")

    def login(self) -> str:
        """Return the author of this token's comments, such as ``github-actions[bot]``.

        Tokens of apps may not read ``/user``; GraphQL names its viewer to each token.
        """
        answer = self._answer(self._send("POST", self.graphql, json={"query": "{ viewer { login } }"}), "graphql")
        return answer.text("data.viewer.login")

    def download(self, path: str, *, most: int) -> bytes:
        """Return the file that *path* redirects to; the token is not sent to another host.

        Raises:
            InvalidError: it has more than *most* bytes.
        """
        response = self._send("GET", path, allow_redirects=False, most=most)
        if 300 <= response.status_code < 400:
            place = urljoin(response.url, response.headers.get("Location", ""))
            if urlsplit(place).scheme != urlsplit(self.address).scheme:
                raise ServiceError(f"GitHub redirects {path} to an address of another kind.")
            response = self._send("GET", place, signed=False, allow_redirects=False, most=most)
        if response.status_code != requests.codes.ok:
            raise ServiceError(f"GitHub's storage answered {response.status_code} to {path}.")
        return response.content

    def _url(self, path: str) -> str:
        if path.startswith(("https://", "http://")):
            return path
        return f"{self.address}{path if path.startswith('/') else f'/repos/{self.repository}/{path}'}"

    def _send(self, method: str, path: str, *, signed: bool = True, **options: Any) -> requests.Response:
        """Send a request until it is answered; POST is repeated only if it was refused."""
        repeatable = method != "POST" or path == self.graphql
        for attempt in retries.repeated(_ATTEMPTS, only=ServiceError if repeatable else LimitedError):
            with attempt:
                return self._once(method, path, signed=signed, **options)
        raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises

    def _once(self, method: str, path: str, *, signed: bool, **options: Any) -> requests.Response:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": _VERSION}
        if signed:
            headers["Authorization"] = f"Bearer {self.token}"
        options = {"most": _MOST_BYTES, "timeout": _TIMEOUT, **options}
        shown = path if signed else "a file"
        try:
            response = exchange(self.session, method, self._url(path), headers=headers, **options)
        except TooLargeError as error:
            raise InvalidError(f"GitHub's answer to {shown} has more than {options['most']} bytes.") from error
        except requests.RequestException as error:
            problem = f"GitHub does not answer {method} {shown} ({type(error).__name__})."
            raise ServiceError(problem, hint=_OUTAGE, transient=True) from error
        if response.status_code >= 400:
            raise _refusal(
                response, f"GitHub answered {response.status_code} to {method} {shown}{_message(response)}."
            )
        return response

    def _answer(self, response: requests.Response, path: str) -> Answer:
        def fail(problem: str) -> ServiceError:
            return ServiceError(f"GitHub's answer to {path} {problem}.")

        return answer_of(response, fail, fail)


def _message(response: requests.Response) -> str:
    """Return GitHub's explanation, as one harmless line."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return ""
    text = document.get("message") if isinstance(document, dict) else None
    return f": {harmless(text)[:500]}" if isinstance(text, str) else ""


def _refusal(response: requests.Response, problem: str) -> ServiceError:
    status = response.status_code
    if status == requests.codes.too_many_requests or "Retry-After" in response.headers:
        return LimitedError(problem, hint=_OUTAGE, transient=True, retry_after=retry_after(response.headers))
    if status >= 500:
        return ServiceError(problem, hint=_OUTAGE, transient=True)
    if status == requests.codes.unauthorized:
        return ServiceError(problem, hint="Pass `github-token: ${{ github.token }}`, the token of this job.")
    if status == requests.codes.forbidden:
        needed = harmless(response.headers.get("X-Accepted-GitHub-Permissions", ""))[:200]
        which = f" GitHub asks for {needed}." if needed else ""
        hint = f"The job lacks a permission; docs/permissions.md lists what each needs.{which}"
        return ServiceError(problem, hint=hint)
    if status in (requests.codes.not_found, requests.codes.gone):
        hint = "It does not exist any more, or the token may not see it: docs/permissions.md lists the permissions."
        return NotFoundError(problem, hint=hint)
    return ServiceError(problem)


def open_api(environ: Mapping[str, str], token: str) -> Api:
    """Return GitHub's interface, for the repository of the workflow.

    Raises:
        InvalidError: without a token, or outside a workflow of GitHub.
    """
    if not token:
        what = "this command writes to GitHub, and has no token"
        remedy = "write `github-token: ${{ github.token }}`"
        raise InvalidError([Fault(where="with.github-token", what=what, remedy=remedy)])
    address = environ.get("GITHUB_API_URL", "").rstrip("/") or "https://api.github.com"
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(repository):
        raise InvalidError("This command runs in a workflow of GitHub: GITHUB_REPOSITORY names no repository.")
    graphql = environ.get("GITHUB_GRAPHQL_URL", "") or f"{address.removesuffix('/v3')}/graphql"
    return Api(address=address, graphql=graphql, repository=repository, token=token, session=Session())
