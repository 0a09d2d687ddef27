"""Send the requests of the script, and keep whatever is answered."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import requests

from aml_train.azure.clouds import Cloud
from aml_train.azure.parity.script import MissingError, Step, fill, place
from aml_train.azure.sign_in import SignIn
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import exchange, host_of
from aml_train.core.retry import retry_after

TIMEOUT: Final = (10.0, 120.0)
ATTEMPTS: Final = 4
BUSY: Final = frozenset({429, 502, 503, 504})
_MOST: Final = 4 << 20
"""Bytes of an answer: a list of a large workspace is one page."""
_LONGEST_WAIT: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Raw:
    """One request and its answer, in clear. It never leaves the process.

    Attributes:
        call: the function of azure-ai-ml that sent it; empty for a step's own request.
        states: the words at the place of the step's ``until``, in their order.
        seconds: until the answer; with *states*, until the last one.
    """

    step: str
    method: str
    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    seconds: float
    call: str = ""
    states: tuple[str, ...] = ()

    def json(self) -> Any:
        """Return the body as JSON; None if it is none."""
        try:
            return json.loads(self.content) if self.content else None
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A step that was not taken.

    *why* names no value: a variable, or the class of an error.
    """

    step: str
    why: str


@dataclass(kw_only=True)
class Conversation:
    """The requests of a script in one workspace.

    Attributes:
        session: sends requests; a test's may answer differently.
        sign_in: gives tokens.
        variables: what is known, by name; captures are added.
        secrets: every token and signed address that was used.
        pace: seconds between two looks at a state.
    """

    session: requests.Session
    sign_in: SignIn
    cloud: Cloud
    variables: dict[str, Any]
    clock: Clock
    pace: float
    secrets: set[str] = field(default_factory=set)
    waited: Callable[[str], None] = lambda _state: None

    def take(self, step: Step) -> Raw:
        """Take a step of one request, and keep its captures.

        Raises:
            MissingError: a variable is not known.
            ServiceError: there is no answer, or no token.
        """
        raw = self._until(step) if step.until is not None else self.send(step)
        self.capture(step, raw)
        return raw

    def capture(self, step: Step, raw: Raw) -> None:
        """Keep what a step captures of an answer that is a success."""
        if not 200 <= raw.status < 300:
            return
        for name, where in (step.capture or {}).items():
            value = place(raw.json(), where)
            if value not in (None, ""):
                self.variables[name] = value
                if name.endswith(("_sas", "_refresh", "_access")) or name in ("log", "artifact"):
                    self.secrets.add(str(value))

    def send(self, step: Step) -> Raw:
        """Send a step's request, again if the service is busy."""
        url = str(fill(step.address, self.variables))
        form = None
        if step.form is not None:
            if "token" not in self.variables:
                self.variables["token"] = self.token("management")
            form = fill(step.form, self.variables)
        headers = {str(name): str(value) for name, value in (step.headers or {}).items()}
        if step.token != "absent":  # noqa: S105 - a word, not a token
            headers["Authorization"] = f"Bearer {self.token(step.token)}"
        body = None if step.body is None else fill(step.body, self.variables)
        data = form if form is not None else step.text
        for attempt in range(ATTEMPTS):
            started = self.clock.now()
            try:
                answer = exchange(
                    self.session,
                    step.method,
                    url,
                    most=_MOST,
                    json=body,
                    data=data,
                    headers=headers,
                    timeout=TIMEOUT,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                if attempt == ATTEMPTS - 1:
                    name = type(error).__name__
                    raise ServiceError(
                        f"{step.name}: {host_of(url)} does not answer: {name}", transient=True
                    ) from None
                self.clock.sleep(self.pace)
                continue
            if answer.status_code not in BUSY or attempt == ATTEMPTS - 1:
                break
            self.clock.sleep(min(retry_after(answer.headers) or self.pace, _LONGEST_WAIT))
        return Raw(
            step=step.name,
            method=step.method,
            url=url,
            status=answer.status_code,
            headers=dict(answer.headers),
            content=answer.content,
            seconds=self.clock.now() - started,
        )

    def _until(self, step: Step) -> Raw:
        """Repeat a request until its state is final, or its time is over."""
        until = step.until
        if until is None:
            raise AssertionError(f"{step.name} is not repeated")
        words = fill(f"{{{until.words}}}", self.variables)
        states: list[str] = []
        began, raw = self.clock.now(), self.send(step)
        while True:
            state = str(place(raw.json(), until.at) or "")
            if state and state not in states[-1:]:
                states.append(state)
                self.waited(state)
            over = self.clock.now() - began
            if state in words or raw.status >= 400 or over > until.minutes * 60:
                return _with(raw, states=tuple(states), seconds=over)
            self.clock.sleep(self.pace)
            raw = self.send(step)

    def token(self, kind: str) -> str:
        """Return a token of a kind; see :data:`aml_train.azure.parity.script.TOKENS`.

        Raises:
            MissingError: the registry gave none.
            ServiceError: the sign-in failed.
        """
        if kind == "malformed":
            return "not-a-token"
        if kind == "expired":
            return _unsigned({"aud": self.cloud.arm, "iss": "https://sts.windows.net/common/", "exp": 1_000_000_000})
        if kind == "registry":
            if not self.variables.get("registry_access"):
                raise MissingError("registry_access")
            return str(self.variables["registry_access"])
        scope = self.cloud.scope if kind == "management" else "https://storage.azure.com/.default"
        token = self.sign_in.token(scope)
        self.secrets.add(token)
        return token


def _with(raw: Raw, *, states: tuple[str, ...], seconds: float) -> Raw:
    from dataclasses import replace

    return replace(raw, states=states, seconds=seconds)


def _unsigned(claims: Mapping[str, Any]) -> str:
    """Return a token that no one signed."""
    parts = [json.dumps(one).encode() for one in ({"alg": "RS256", "typ": "JWT", "kid": "none"}, claims)]
    encoded = [base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in (*parts, bytes(256))]
    return ".".join(encoded)


def each_step(
    conversation: Conversation, steps: tuple[Step, ...], call: Callable[[Step], list[Raw]] | None
) -> Iterator[tuple[Step, list[Raw] | Skipped]]:
    """Take steps in their order; one that fails is skipped.

    Args:
        call: calls azure-ai-ml; None leaves these steps out.
    """
    for step in steps:
        taken: list[Raw] | Skipped
        try:
            if step.sdk:
                taken = Skipped(step=step.name, why="without azure-ai-ml") if call is None else call(step)
            else:
                taken = [conversation.take(step)]
        except MissingError as error:
            taken = Skipped(step=step.name, why=f"needs {error.name}")
        except ServiceError as error:
            taken = Skipped(step=step.name, why=f"no answer ({type(error).__name__})")
        yield step, taken
