"""Requests to a registry: sign-in, useful retries, refusals in plain words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self
from urllib.parse import urljoin, urlsplit

import requests
import requests.adapters
import urllib3

from aml_train.core.answers import MOST_PAGES, Answer, Pages, UndecodableError, clean, decode, is_within
from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.http_client import Session, TooLargeError, answer_of, exchange, host_of
from aml_train.core.retry import attempts_while, retry_after
from aml_train.image.registry.auth import Authenticator, BusyError, Login, RegistryAuth, is_loopback, sign_in_hint

_CONNECT_TIMEOUT, _READ_TIMEOUT = 10.0, 120.0
_PATIENCE: Final = 300.0
_LONGEST_WORDS: Final = 300


class RegistryHttp:
    """Makes the requests of one client. Raises ImageError, with reason and remedy.

    Args:
        url: ``https://host[:port]``; ``http`` is accepted for loopback addresses only, and where *same_machine* says so.
        auth: credentials, or what gives those of the moment; None for anonymous access.
        verify, proxies: as in requests.
        attempts: how often a request is made at most, where connection or registry fail for the moment.
        transport: answers the requests instead of the network.
        same_machine: the address is a container's of the engine in use, though it is not loopback.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: RegistryAuth | Login | None = None,
        verify: bool | str = True,
        proxies: Mapping[str, str] | None = None,
        attempts: int = 6,
        transport: requests.adapters.BaseAdapter | None = None,
        same_machine: bool = False,
    ) -> None:
        parts = urlsplit(url)
        direct = same_machine or is_loopback(parts.hostname or "")
        if parts.scheme != "https" and not (parts.scheme == "http" and direct):
            raise ImageError(
                f"the registry {url} is not reached by https", hint="Plain http is for loopback addresses only."
            )
        self.url = url.rstrip("/")
        self.host = parts.netloc
        self._attempts = attempts
        self._session = Session()
        self._session.trust_env = False
        self._session.verify = verify
        if transport is not None:
            self._session.mount("https://", transport)
            self._session.mount("http://", transport)
        self._session.proxies = {} if direct else dict(proxies or {})
        self._authenticator = Authenticator(self._session, self.host, auth)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connections."""
        self._session.close()

    def repeated(self, work: Callable[[], requests.Response]) -> requests.Response:
        """Return what *work* returns; retry transient failures of connection and registry.

        A wait that the registry asks for (``Retry-After``) is kept, within two minutes.
        """
        try:
            for attempt in attempts_while(_backoff, attempts=self._attempts, timeout=_PATIENCE, longest=20.0):
                with attempt:
                    return work()
        except BusyError as error:
            return error.response
        except TooLargeError as error:
            raise DamagedError(f"the registry {self.host} sends {error}") from error
        except requests.RequestException as error:
            raise ImageError(
                f"the registry {self.host} cannot be reached: {_reason(error)}",
                hint="Check the name, the network, and HTTPS_PROXY and NO_PROXY.",
            ) from error
        raise AssertionError("unreachable")  # pragma: no cover - the retry either returns or raises

    def once(
        self,
        method: str,
        url: str,
        *,
        scopes: Sequence[str],
        headers: Mapping[str, str] | None = None,
        timeout: tuple[float, float] = (_CONNECT_TIMEOUT, _READ_TIMEOUT),
        **options: Any,
    ) -> requests.Response:
        """Make a request, signing in where asked to.

        Args:
            method, url: the request; an address of another host never gets our credentials.
            scopes: what a token must allow.
            timeout: seconds for connecting, and between two pieces of the answer.

        Raises:
            BusyError: 429 or 5xx.
            requests.RequestException: the connection fails.
        """
        if host_of(url) != self.host:  # an upload elsewhere
            return _unless_busy(exchange(self._session, method, url, headers=headers, timeout=timeout, **options))
        authorization = self._authenticator.header(scopes)
        sent = {**(headers or {}), **({"Authorization": authorization} if authorization else {})}
        response = exchange(self._session, method, url, headers=sent, timeout=timeout, **options)
        challenge = response.headers.get("WWW-Authenticate", "")
        if response.status_code == 401 and (fresh := self._authenticator.answer(challenge, scopes, authorization)):
            response.close()
            sent["Authorization"] = fresh
            response = exchange(self._session, method, url, headers=sent, timeout=timeout, **options)
        return _unless_busy(response)

    def expect(self, response: requests.Response, status: int, what: str) -> None:
        """Raise ImageError unless the registry answered *status* to the wish *what*."""
        if response.status_code == status:
            return
        hint = None
        if response.status_code in (401, 403):
            hint = sign_in_hint(self.host)
        elif response.status_code == 404:
            hint = "Check the repository's name; a registry may also hide what you may not see."
        elif response.status_code == 405:
            hint = "The repository or the tag may be locked."
        elif response.status_code == 429:
            hint = "The registry limits the rate of requests; sign in, or try later."
        kind = DamagedError if response.status_code == 404 else ImageError
        raise kind(f"the registry {self.host} refused to {what}: {_complaint(response)}", hint=hint)

    def pages(self, url: str, what: str, *, scopes: Sequence[str], most: int = MOST_PAGES) -> Iterator[Answer]:
        """Yield the pages of the list at *url*; none if there is no such list.

        Args:
            what: what the list is wanted for, such as ``list the tags of r``.
            most: how many pages there may be.
        """
        fail = self.unusable(what)
        pages = Pages(fail, most)
        address, first = url, True
        while True:
            response = self.repeated(functools.partial(self.once, "GET", address, scopes=scopes))
            if response.status_code == 404 and first:
                return
            self.expect(response, 200, what)
            yield answer_of(response, fail, fail)
            link = response.links.get("next", {}).get("url")
            if not link:
                return
            address, first = pages.follow(self._joined(response, link, fail)), False

    def unusable(self, what: str) -> Callable[[str], ImageError]:
        """Return what makes the error of an answer that cannot be used to *what*."""
        return lambda problem: ImageError(
            f"the answer of the registry {self.host} to {what} {problem}",
            hint="Is it a registry that answers there, and no proxy or sign-in page in front of it?",
        )

    def _joined(self, response: requests.Response, link: str, fail: Callable[[str], ImageError]) -> str:
        """Return the address of the next page, which is at the registry itself."""
        try:
            address = urljoin(response.url, link)
        except ValueError:
            raise fail("names a next page that is no address") from None
        if not is_within(address, self.url):
            raise fail("names a next page that is not at the same host")
        return address


def _backoff(error: Exception) -> bool | float:
    """Return whether to retry, or the seconds that the registry asks to wait."""
    if isinstance(error, BusyError):
        asked = retry_after(error.response.headers)
        return True if asked is None else asked <= 120.0 and max(asked, 0.1)
    return isinstance(error, requests.ConnectionError | requests.Timeout | requests.exceptions.ChunkedEncodingError)


def _unless_busy(response: requests.Response) -> requests.Response:
    if response.status_code == 429 or response.status_code >= 500:
        raise BusyError(response)
    return response


def _complaint(response: requests.Response) -> str:
    """Return status and words, of ``{"errors": [{"code", "message"}]}``."""
    asked = response.headers.get("Retry-After")
    wait = [f"(it asks to wait: Retry-After {asked[:_LONGEST_WORDS]})"] if asked else []
    return " ".join([f"HTTP {response.status_code}", *_words(response), *wait]).strip()


def _words(response: requests.Response) -> list[str]:
    """Return the registry's error texts, or the beginning of another answer."""
    try:
        document = decode(response.content)
    except UndecodableError:
        return [response.text[:_LONGEST_WORDS]]
    except (requests.RequestException, RuntimeError):  # a body that was left to be streamed, and cannot be read
        return []
    if (errors := _errors(document)) is None:
        return [] if document == {} else [response.text[:_LONGEST_WORDS]]
    said = (f"{one.get('code', '')} {one.get('message', '')}" for one in errors)
    return [clean(one).strip()[:_LONGEST_WORDS] for one in said]


def codes_of(response: requests.Response) -> frozenset[str]:
    """Return the codes of a refusal, such as ``MANIFEST_UNKNOWN``."""
    try:
        errors = _errors(decode(response.content)) or []
    except (UndecodableError, requests.RequestException, RuntimeError):
        return frozenset()
    return frozenset(str(one.get("code")) for one in errors)


def _errors(document: object) -> list[dict[str, Any]] | None:
    """Return the entries of ``errors``, five at most; None for another document."""
    errors = document.get("errors") if isinstance(document, dict) else None
    return [one for one in errors[:5] if isinstance(one, dict)] if isinstance(errors, list) else None


def _reason(error: requests.RequestException) -> str:
    """Return the innermost reason; requests and urllib3 wrap it."""
    reason: BaseException = error
    for _ in range(10):
        inner = getattr(reason, "reason", None) or (reason.args[0] if reason.args else None)
        if not isinstance(inner, BaseException):
            break
        reason = inner
    # urllib3's ConnectTimeoutError has its connection before the text.
    texts = reason.args[-1:] if isinstance(reason, urllib3.exceptions.ConnectTimeoutError) else ()
    text = texts[0] if texts else reason
    return clean(str(text))[:_LONGEST_WORDS]
