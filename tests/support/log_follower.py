"""A follower of a job on the emulator, in this process: what it hears, and every byte that it is sent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import requests

from aml_train.azure.http import HttpSettings, WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Event, LogLines
from aml_train.core.masking import Masker
from aml_train.jobs.pace import Limits, Pace
from aml_train.jobs.workspace import Workspace
from tests.support.emulator_client import Client, session_for, token
from tests.support.emulator_process import Emulator
from tests.support.watching import watch

_VALID_SECONDS = 3600
"""Of the emulator's access tokens."""


class Token:
    """What azure-identity's credentials are to a `SignIn`: it keeps its token for half an hour, as they do."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._kept: Any = None

    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        from azure.core.credentials import AccessToken

        now = int(time.time())
        if self._kept is None or now > self._kept.expires_on - _VALID_SECONDS // 2:
            with session_for(self._environment) as session:
                self._kept = AccessToken(token(session, self._environment), now + _VALID_SECONDS)
        return self._kept


class Counted(requests.Session):
    """A session that counts the bytes of bodies that Blob storage sent, as they arrive, by the blob's name.

    *cut* breaks so many of the answers off in the middle.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received: dict[str, int] = {}
        self.cut = 0

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        answer = super().send(request, **options)
        address = urlsplit(request.url or "")
        if ".blob." in str(address.netloc) and answer.ok:
            self._count(answer, str(address.path).partition("/user_logs/")[2])
        return answer

    def _count(self, answer: requests.Response, name: str) -> None:
        read = answer.iter_content
        breaks, self.cut = self.cut > 0, max(0, self.cut - 1)

        def counted(chunk_size: int | None = 1, decode_unicode: bool = False) -> Iterator[Any]:
            for number, chunk in enumerate(read(chunk_size, decode_unicode)):
                if breaks and number:
                    raise requests.ConnectionError("broken off on purpose")
                self.received[name] = self.received.get(name, 0) + len(chunk)
                yield chunk

        answer.iter_content = counted  # type: ignore[method-assign]


@dataclass
class Following:
    """Jobs that write logs, and their follower."""

    emulator: Emulator
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        info, environment = self.emulator.info, self.emulator.environment()
        self.client = Client(environment, info)
        self.client.ask(
            "PUT", self.client.arm("environments/logs/versions/1"), json={"properties": {"image": "none:1"}}
        ).raise_for_status()
        self.session = Counted()
        way = HttpSettings(proxy=environment["HTTPS_PROXY"], ca_bundle=environment["REQUESTS_CA_BUNDLE"])
        plain = way.session()
        self.session.trust_env, self.session.proxies, self.session.verify = False, plain.proxies, plain.verify
        workspace = WorkspaceId(
            subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
        )
        self.service = AzureRest(workspace, SignIn(Token(environment), way="secret"), session=self.session)

    def submit(self, name: str, *script: str, compute: str | None = None) -> str:
        """Submit a job with that script."""
        scope = self.client.scope
        job = {
            "jobType": "Command",
            "command": "\n".join(script),
            "environmentId": f"{scope}/environments/logs/versions/1",
            "computeId": f"{scope}/computes/{compute or self.emulator.info['compute']}",
            "experimentName": "logs",
        }
        self.client.ask("PUT", self.client.arm(f"jobs/{name}"), json={"properties": job}).raise_for_status()
        return name

    def tag(self, name: str, tag: str) -> None:
        """Let a job go on that waits for *tag*."""
        url = f"{self.client.api}/history/v1.0{self.client.scope}/runs/{name}"
        self.client.ask("PATCH", url, data=json.dumps({"tags": {tag: "1"}})).raise_for_status()

    def watch(
        self, name: str, on_event: Callable[[Event], None] = lambda _event: None, *, masker: Masker | None = None
    ) -> AmlTrainError | None:
        """Follow the job to its end; return what it failed with. *on_event* is told each event after it was kept."""

        def listener(event: Event) -> None:
            self.events.append(event)
            on_event(event)

        clock = Clock(now=time.monotonic, sleep=time.sleep)
        pace = Pace(shortest=0.05, longest=0.2, log=0.05)
        service = cast(Workspace, self.service)  # a watch only reads, and cancels
        return watch(service, name, clock=clock, pace=pace, limits=Limits(), listener=listener, masker=masker)[1]

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def text(self, path: str = "user_logs/std_log.txt") -> str:
        """Return what was heard of one log."""
        return "".join(one.text + "\n" * (not one.more) for one in self.of(LogLines) if one.origin == path)


def ranks(count: int) -> Mapping[str, str]:
    """Return the ranks of so many processes, and where AzureML keeps their logs."""
    width = len(str(count - 1))
    return {str(rank): f"user_logs/std_log_process_{rank:0{width}d}.txt" for rank in range(count)}
