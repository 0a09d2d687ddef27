"""Record a workspace: converse, clean up, replace, prove, and only then write."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import requests

from aml_train.azure.clouds import Cloud
from aml_train.azure.http import HttpWay, WorkspaceId
from aml_train.azure.parity.cleaning import Removal, clean
from aml_train.azure.parity.conversation import Conversation, Raw, Skipped, each_step
from aml_train.azure.parity.file import FORMAT, Recording
from aml_train.azure.parity.proof import Remain, claims, learned_of, prove, seen_in
from aml_train.azure.parity.script import Script, Step, constants, read_script
from aml_train.azure.parity.scrub import Scrubber, body_of, time_class
from aml_train.azure.sign_in import SignIn
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.version import __version__

PARITY_IMAGE: Final = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:latest"
"""A small base image of AzureML's own: it is pulled, and nothing is built."""
PARITY_SIZE: Final = "Standard_DS3_v2"
PACE: Final = 5.0
_ID: Final = "parity-"
Report = Callable[[str], None]


class RemainsError(AmlTrainError):
    """The recording still holds something that was learned: it is not written."""

    exit_code = 1

    def __init__(self, remains: list[Remain]) -> None:
        shown = "\n".join(f"  {one}" for one in dict.fromkeys(remains[:20]))
        more = f"\n  and {len(remains) - 20} more" if len(remains) > 20 else ""
        super().__init__(
            f"The recording still holds ids or secrets in {len(remains)} places, and was not written:\n{shown}{more}",
            hint="This is a fault of aml-train: report these lines. They name places, and no values.",
        )
        self.remains = remains


@dataclass(frozen=True, kw_only=True)
class RecordedPlace:
    """The workspace that is recorded, and the compute of its two jobs.

    Attributes:
        compute: the name of a compute; None for serverless compute of *size*.
        image: of the jobs; it needs a shell alone.
        way: how the services are reached.
        tenant: the identity's, if it is known.
        secrets: of the environment; the proof looks for them, too.
    """

    workspace: WorkspaceId
    sign_in: SignIn
    cloud: Cloud
    compute: str | None = None
    size: str = PARITY_SIZE
    image: str = PARITY_IMAGE
    way: HttpWay = field(default_factory=lambda: HttpWay())
    tenant: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The result of a recording.

    Attributes:
        recording: scrubbed and proved.
        removals: what was made, and what became of it.
    """

    id: str
    recording: Recording
    removals: tuple[Removal, ...]


def new_recording_id() -> str:
    """Return the id of a new recording."""
    return f"{_ID}{secrets.token_hex(4)}"


def check_recording_id(id_: str) -> str:
    """Return the id of a recording as a command got it.

    Raises:
        InvalidError: it is no such id.
    """
    left = id_.removeprefix(_ID)
    if len(left) != 8 or left == id_ or any(one not in "0123456789abcdef" for one in left):
        raise InvalidError(f"{id_!r} is no id of a recording.", hint="`parity record` prints it: parity-0123abcd.")
    return id_


def converse(
    place: RecordedPlace, id_: str, script: Script, *, session: requests.Session, clock: Clock, pace: float
) -> Conversation:
    """Return the conversation of a recording, before its first request."""
    workspace = place.workspace
    by_name = place.compute is not None
    variables: dict[str, Any] = {
        **script.variables,
        "id": id_,
        "name": id_.replace("-", "_"),
        "management": place.cloud.arm,
        "subscription": workspace.subscription_id,
        "resource_group": workspace.resource_group,
        "workspace_path": workspace.path,
        "image": place.image,
        "compute": place.compute,
        "placement": "computeId" if by_name else "resources",
        "place": (
            f"{workspace.path}/computes/{place.compute}"
            if by_name
            else {"instanceType": place.size, "instanceCount": 1}
        ),
    }
    return Conversation(
        session=session, sign_in=place.sign_in, cloud=place.cloud, variables=variables, clock=clock, pace=pace
    )


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A conversation that has ended, in clear. It never leaves the process.

    Attributes:
        steps: each with its answers, or why it was skipped.
        outcomes: of the calls of azure-ai-ml, by step.
        removals: what was made, and what became of it.
    """

    conversation: Conversation
    steps: tuple[tuple[Step, list[Raw] | Skipped], ...]
    outcomes: Mapping[str, str]
    removals: tuple[Removal, ...]


def record_workspace(
    place: RecordedPlace,
    *,
    id_: str | None = None,
    report: Report = lambda _text: None,
    session: requests.Session | None = None,
    clock: Clock = SYSTEM_CLOCK,
    pace: float = PACE,
    with_sdk: bool = True,
) -> Recorded:
    """Record a workspace, and remove everything that was made for it.

    Args:
        place: the workspace.
        id_: of the recording; a new one by default.
        report: receives a line for each step, for people.
        session: sends the requests; by default one that takes the place's way.
        clock: measures answers, and sleeps.
        pace: seconds between two looks at a state.
        with_sdk: whether azure-ai-ml is called as well.

    Raises:
        ServiceError: the workspace cannot be reached, or the sign-in fails.
        RemainsError: the proof found something; nothing is written.
    """
    taken = take_workspace(
        place,
        id_=id_ or new_recording_id(),
        report=report,
        session=session,
        clock=clock,
        pace=pace,
        with_sdk=with_sdk,
    )
    id_ = str(taken.conversation.variables["id"])
    return Recorded(id=id_, recording=scrubbed(place, taken), removals=taken.removals)


def take_workspace(
    place: RecordedPlace,
    *,
    id_: str,
    report: Report,
    session: requests.Session | None,
    clock: Clock,
    pace: float,
    with_sdk: bool,
) -> Taken:
    """Have the conversation, and remove what was made, also after an interruption."""
    script = read_script()
    own = session or place.way.session()
    conversation = converse(place, id_, script, session=own, clock=clock, pace=pace)
    conversation.waited = lambda state: report(f"    {state}")
    calls = _Calls(place, id_, clock, report) if with_sdk else None
    steps: list[tuple[Step, list[Raw] | Skipped]] = []
    removals: list[Removal] = []
    found = False
    try:
        for number, (step, result) in enumerate(each_step(conversation, script.steps, calls), 1):
            steps.append((step, result))
            report(f"[{number}/{len(script.steps)}] {step.name}: {_shown(result)}")
            if not found:
                _check_first(result)
                found = True
    finally:
        # `--clean` removes the remains of a killed process.
        if found:
            removals = clean(conversation, script, lambda one: report(_said(one)))
        if session is None:
            own.close()
    outcomes = {} if calls is None else calls.outcomes
    return Taken(conversation=conversation, steps=tuple(steps), outcomes=outcomes, removals=tuple(removals))


def clean_recording(
    place: RecordedPlace,
    id_: str,
    *,
    report: Report = lambda _text: None,
    session: requests.Session | None = None,
    clock: Clock = SYSTEM_CLOCK,
    pace: float = PACE,
) -> tuple[Removal, ...]:
    """Remove what the recording *id_* has left in the workspace: a killed one cannot.

    Raises:
        InvalidError: it is no id of a recording.
        ServiceError: the workspace cannot be reached.
    """
    script, own = read_script(), session or place.way.session()
    try:
        conversation = converse(place, check_recording_id(id_), script, session=own, clock=clock, pace=pace)
        _check_first([conversation.take(script.step("workspace"))])
        return tuple(clean(conversation, script, lambda one: report(_said(one))))
    finally:
        if session is None:
            own.close()


class _Calls:
    """Makes the client of azure-ai-ml at its first step."""

    def __init__(self, place: RecordedPlace, id_: str, clock: Clock, report: Report) -> None:
        self._place, self._id, self._clock, self._report = place, id_, clock, report
        self._made: Any = None
        self.outcomes: dict[str, str] = {}

    def __call__(self, step: Step) -> list[Raw]:
        from aml_train.azure.parity.sdk_steps import SdkCalls

        if self._made is None:
            self._report("    azure-ai-ml is loaded")
            place = self._place
            self._made = SdkCalls(place.workspace, place.sign_in, place.cloud, place.way.azure_options(), self._clock)
        called = self._made.call(step.name, step.sdk, self._id)
        self.outcomes[step.name] = called.outcome
        return list(called.raws)


def _check_first(result: list[Raw] | Skipped) -> None:
    """Raise unless the workspace was found: nothing was made yet."""
    if isinstance(result, Skipped):
        raise ServiceError("The workspace does not answer.", hint="Check the network, HTTPS_PROXY and the CA bundle.")
    status = result[0].status
    if status != 200:
        raise ServiceError(
            f"The workspace cannot be read: Azure answered {status}.",
            hint="Check --subscription, --resource-group and --workspace, and the identity's role 'AzureML Data Scientist'.",
        )


def _said(removal: Removal) -> str:
    return f"{removal.name}: {removal.result}" + (f", {removal.why}" if removal.why else "")


def _shown(result: list[Raw] | Skipped) -> str:
    if isinstance(result, Skipped):
        return f"skipped, {result.why}"
    return ", ".join(str(one.status) for one in result) or "no request"


def scrubbed(place: RecordedPlace, taken: Taken) -> Recording:
    """Return the recording of what was taken, proved.

    Raises:
        RemainsError: something that was learned is left.
    """
    script, conversation = read_script(), taken.conversation
    raws = [raw for _, result in taken.steps if not isinstance(result, Skipped) for raw in result]
    known = roles(place, conversation)
    public = _public(script, place.image)
    hard = {value: what for value, what in learned(place, conversation, raws).items() if value not in public}
    scrubber = Scrubber({**dict.fromkeys(hard, ""), **known}, public, str(conversation.variables["id"]))
    lines: list[Mapping[str, Any]] = []
    for step, result in taken.steps:
        if isinstance(result, Skipped):
            lines.append({"kind": "skipped", "step": step.name, "why": result.why})
            continue
        if step.name in taken.outcomes:
            lines.append({"kind": "call", "step": step.name, "outcome": taken.outcomes[step.name]})
        lines += [_line(raw, scrubber, public) for raw in result]
    recording = Recording(header=_header(place, script), lines=tuple(lines))
    seen = {one: "a value of an answer" for raw in raws for text in _clear_texts(raw) for one in seen_in(text)}
    remains = prove(
        recording.text_lines()[:-1], {**seen, **hard, **dict.fromkeys(known, "a name of the workspace")}, public
    )
    if remains:
        raise RemainsError(remains)
    return recording


def _clear_texts(raw: Raw) -> Iterator[str]:
    """Yield everything of an exchange that the recording was made of."""
    yield raw.content.decode(errors="replace")
    yield raw.url
    yield from raw.headers.values()


def _header(place: RecordedPlace, script: Script) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "script": script.version,
        "aml-train": __version__,
        "cloud": place.cloud.name,
        "compute": "serverless" if place.compute is None else "named",
    }


def _public(script: Script, image: str) -> frozenset[str]:
    """Return public texts: those of the script, and the name of the public image."""
    return frozenset((*constants(script), *([image] if image == PARITY_IMAGE else [])))


def _line(raw: Raw, scrubber: Scrubber, public: frozenset[str]) -> dict[str, Any]:
    content_type = next((value for name, value in raw.headers.items() if name.lower() == "content-type"), "")
    line: dict[str, Any] = {
        "kind": "exchange",
        "step": raw.step,
        "method": raw.method,
        "url": scrubber.url(raw.url),
        "status": raw.status,
        "headers": scrubber.headers(raw.headers),
        "body": body_of(raw.content, content_type, scrubber, public),
        "time": time_class(raw.seconds),
    }
    if raw.states:
        line["states"] = [scrubber.text(one, ("status",)) for one in raw.states]
    return {**line, "call": raw.call} if raw.call else line


def roles(place: RecordedPlace, conversation: Conversation) -> dict[str, str]:
    """Return the names of the workspace → their roles."""
    known = conversation.variables
    found = {
        place.workspace.subscription_id: "subscription",
        place.workspace.resource_group: "group",
        place.workspace.name: "workspace",
        place.compute or "": "compute",
        place.tenant: "tenant",
        str(known.get("location") or ""): "location",
        str(known.get("account") or ""): "account",
        str(known.get("container") or ""): "container",
        str(known.get("login_server") or ""): "registry",
        str(known.get("login_server") or "").partition(".")[0]: "registry",
    }
    return {value: role for value, role in found.items() if value}


def learned(place: RecordedPlace, conversation: Conversation, raws: list[Raw]) -> dict[str, str]:
    """Return everything that was seen in clear and is someone's → what it is."""
    found: dict[str, str] = {}
    for secret in conversation.secrets:
        found[secret] = "a secret"
        found |= dict(learned_of(claims(secret), "a claim of the token"))
        _, _, query = secret.partition("?")
        found |= {
            one.partition("=")[2]: "a part of a signature" for one in query.split("&") if one.startswith("sig=")
        }
    for raw in raws:
        if raw.step == "workspace":
            found |= dict(learned_of(raw.json(), "a value of the workspace"))
    people = [value for value, what in found.items() if what == "a claim of the token" and " " in value]
    found |= {
        part: "a part of a name" for value in people for part in value.split() if len(part) > 3 and part.isalpha()
    }
    found |= dict.fromkeys(place.secrets, "a secret of the environment")
    if place.image != PARITY_IMAGE:
        found[place.image] = "the image"
    # The audience of the token is everyone's.
    return {value: what for value, what in found.items() if value.rstrip("/") != place.cloud.arm}
