"""GitHub's REST interface, with the workflow's own token.

Source: https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api and
https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api (403 and 429 with ``Retry-After`` or
``X-RateLimit-Reset``; both kinds of limits are named in the answer's message, too).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests

from aml_train.core.answers import Answer
from aml_train.core.errors import Fault, InvalidError, ServiceError
from aml_train.core.http_client import Session, TooLargeError, answer_of, exchange
from aml_train.core.retry import retry_after
from aml_train.core.text import harmless

_ATTEMPTS: Final = 5
_TIMEOUT: Final = (10.0, 60.0)
#: Seconds; a limit that lasts longer ends the step.
_LONGEST_WAIT: Final = 300.0
_PER_PAGE: Final = 100
_MOST_PAGES: Final = 100
_VERSION: Final = "2022-11-28"
_MOST_BYTES: Final = 16 << 20
_SAFE_TO_REPEAT: Final = frozenset({"GET", "PATCH", "DELETE"})
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


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
        sleep: waits, in seconds.
        now: seconds since the epoch.
    """

    address: str
    graphql: str
    repository: str
    token: str = field(repr=False)
    session: requests.Session = field(default_factory=Session, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    now: Callable[[], float] = field(default=time.time, repr=False)

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
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": _VERSION}
        if signed:
            headers["Authorization"] = f"Bearer {self.token}"
        options = {"most": _MOST_BYTES, "timeout": _TIMEOUT, **options}
        shown = path if signed else "a file"
        repeatable = method in _SAFE_TO_REPEAT or path == self.graphql
        for attempt in range(1, _ATTEMPTS + 1):
            pause: float | None = 2.0**attempt
            try:
                response = exchange(self.session, method, self._url(path), headers=headers, **options)
            except TooLargeError as error:
                raise InvalidError(f"GitHub's answer to {shown} has more than {options['most']} bytes.") from error
            except requests.RequestException as error:
                problem = f"GitHub does not answer {method} {shown} ({type(error).__name__})"
                if not repeatable:
                    pause = None
            else:
                status = response.status_code
                if status < 400:
                    return response
                problem = f"GitHub answered {status} to {method} {shown}{_message(response)}"
                if _limited(response):
                    pause = self._pause(response, attempt)
                elif status < 500:
                    raise _refusal(status, problem, response)
                elif not repeatable:
                    pause = None
            if pause is None or attempt == _ATTEMPTS:
                break
            self.sleep(pause)
        hint = "Run the workflow again; https://www.githubstatus.com reports outages."
        raise ServiceError(f"{problem}.", hint=hint, transient=True)

    def _pause(self, response: requests.Response, attempt: int) -> float | None:
        """Return how long a limit asks to wait; None if that is too long."""
        asked = retry_after(response.headers, now=self.now())
        reset = response.headers.get("X-RateLimit-Reset", "")
        if asked is None and response.headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal():
            asked = max(0.0, float(reset[:12]) - self.now()) + 1
        # Without a header the documentation asks for a minute, and more after each refusal.
        pause = 60.0 * attempt if asked is None else max(asked, 1.0)
        return pause if pause <= _LONGEST_WAIT else None

    def _answer(self, response: requests.Response, path: str) -> Answer:
        def fail(problem: str) -> ServiceError:
            return ServiceError(f"GitHub's answer to {path} {problem}.")

        return answer_of(response, fail, fail)


def _limited(response: requests.Response) -> bool:
    """Return whether a limit of the rate refused the request: the second try may pass."""
    if response.status_code == requests.codes.too_many_requests:
        return True
    if response.status_code != requests.codes.forbidden:
        return False
    headers = response.headers
    return (
        "Retry-After" in headers
        or headers.get("X-RateLimit-Remaining") == "0"
        or "secondary rate limit" in response.text[:2000].lower()
    )


def _message(response: requests.Response) -> str:
    """Return GitHub's explanation, as one harmless line."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict) or not isinstance(document.get("message"), str):
        return ""
    errors = document.get("errors")
    more = (
        [one.get("message") if isinstance(one, dict) else one for one in errors[:3]]
        if isinstance(errors, list)
        else []
    )
    text = "; ".join([document["message"], *(one for one in more if isinstance(one, str))])
    return f": {harmless(text)[:500]}"


def _refusal(status: int, problem: str, response: requests.Response) -> ServiceError:
    needed = harmless(response.headers.get("X-Accepted-GitHub-Permissions", ""))[:200]
    if status == requests.codes.unauthorized:
        return ServiceError(f"{problem}.", hint="Pass `github-token: ${{ github.token }}`, the token of this job.")
    if status == requests.codes.forbidden:
        which = f" GitHub asks for {needed}." if needed else ""
        return ServiceError(
            f"{problem}.", hint=f"The job lacks a permission; docs/permissions.md lists what each needs.{which}"
        )
    if status in (requests.codes.not_found, requests.codes.gone):
        hint = "It does not exist any more, or the token may not see it: docs/permissions.md lists the permissions."
        return NotFoundError(f"{problem}.", hint=hint)
    return ServiceError(f"{problem}.")


def open_api(environ: Mapping[str, str], token: str, *, session: requests.Session | None = None) -> Api:
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
    return Api(
        address=address,
        graphql=graphql,
        repository=repository,
        token=token,
        session=session or Session(),
        sleep=time.sleep,
    )
