"""The scripted conversation: named steps with request templates and captures."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import yaml

from aml_train.core.errors import InvalidError

TAG: Final = "aml-train.parity"
"""The tag of everything that a recording makes; its value is the recording's id."""

TOKENS: Final = ("management", "storage", "registry", "absent", "malformed", "expired")
_VARIABLE: Final = re.compile(r"\{([a-z][a-z0-9_]*)(?::([a-z]+))?\}")
_STEP: Final = frozenset(
    {"name", "request", "sdk", "token", "body", "form", "text", "headers", "capture", "until", "minutes"}
)
_THING: Final = frozenset(
    {"name", "show", "body", "each", "tags", "status", "cancel", "remove", "remove_body", "archive"}
)
_DEEPEST: Final = 12


class MissingError(Exception):
    """A template names variables that are not known."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, kw_only=True)
class Until:
    """The end of a repeated request: a value at a place is one of the words."""

    at: str
    words: str
    minutes: float


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the conversation.

    Attributes:
        name: unique; recordings are compared by it.
        method: of the request; empty for a call of azure-ai-ml.
        address: a template.
        sdk: a function of :mod:`aml_train.azure.parity.sdk_steps`; empty for a request.
        token: one of :data:`TOKENS`.
        body: a template of JSON.
        form: a template of a form.
        text: the body as it is.
        capture: variable → place in the answer.
    """

    name: str
    method: str = ""
    address: str = ""
    sdk: str = ""
    token: str = "management"  # noqa: S105 - a word, not a token
    body: Any = None
    form: Mapping[str, str] | None = None
    text: str | None = None
    headers: Mapping[str, str] | None = None
    capture: Mapping[str, str] | None = None
    until: Until | None = None


@dataclass(frozen=True, kw_only=True)
class Thing:
    """Something that a recording makes, and how it is found and removed.

    Attributes:
        show: the request that finds it.
        each: the place of ids in a list: the list's key, then the place in an item; empty for a single thing.
        tags: the place of its tags in the answer; empty if its name alone identifies it.
        status: the place of its status, for a job.
        cancel: the request that ends a job.
        archive: whether it can be archived if it cannot be removed.
    """

    name: str
    show: str
    remove: str
    body: Any = None
    remove_body: Any = None
    each: str = ""
    tags: str = ""
    status: str = ""
    cancel: str = ""
    archive: bool = False


@dataclass(frozen=True, kw_only=True)
class Script:
    """The conversation and what is removed after it.

    Attributes:
        version: of the script; recordings of different versions are compared by the steps that both have.
        variables: templates by name.
        prepare: steps whose captures the removal needs.
    """

    version: int
    variables: Mapping[str, Any]
    steps: tuple[Step, ...]
    things: tuple[Thing, ...]
    prepare: tuple[str, ...]

    def step(self, name: str) -> Step:
        """Return the step of that name."""
        return next(one for one in self.steps if one.name == name)


@functools.cache
def read_script() -> Script:
    """Return the script of this release."""
    text = files("aml_train.azure.parity").joinpath("script.yml").read_text(encoding="utf-8")
    return parse_script(text)


def parse_script(text: str) -> Script:
    """Return the script in a text.

    Raises:
        InvalidError: it is no script; the message names the step.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidError(f"The script is not YAML: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list):
        raise InvalidError("The script has no list of steps.")
    steps = tuple(_step(one) for one in data["steps"])
    names = [one.name for one in steps]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidError(f"The script has two steps named {twice[0]}.")
    prepare = tuple(data.get("prepare") or ())
    if unknown := sorted(set(prepare) - set(names)):
        raise InvalidError(f"prepare: the script has no step named {unknown[0]}.")
    return Script(
        version=int(data.get("version") or 0),
        variables=dict(data.get("variables") or {}),
        steps=steps,
        things=tuple(_thing(one) for one in data.get("clean") or ()),
        prepare=prepare,
    )


def _step(data: Mapping[str, Any]) -> Step:
    name = str(data.get("name") or "")
    where = f"step {name or '(without a name)'}"
    if unknown := sorted(data.keys() - _STEP):
        raise InvalidError(f"{where}: {unknown[0]} is not known.", hint=f"Known are {', '.join(sorted(_STEP))}.")
    if not name or bool(data.get("request")) == bool(data.get("sdk")):
        raise InvalidError(f"{where}: a step has a name, and either a request or a call of the SDK.")
    token = str(data.get("token") or "management")
    if token not in TOKENS:
        raise InvalidError(f"{where}: the token {token} is not known.", hint=f"Known are {', '.join(TOKENS)}.")
    method, _, address = str(data.get("request") or " ").partition(" ")
    until = data.get("until")
    return Step(
        name=name,
        method=method,
        address=address,
        sdk=str(data.get("sdk") or ""),
        token=token,
        body=data.get("body"),
        form=data.get("form"),
        text=data.get("text"),
        headers=data.get("headers"),
        capture=data.get("capture"),
        until=None if until is None else Until(at=until["at"], words=until["words"], minutes=float(until["minutes"])),
    )


def _thing(data: Mapping[str, Any]) -> Thing:
    if unknown := sorted(data.keys() - _THING):
        raise InvalidError(f"clean {data.get('name')}: {unknown[0]} is not known.")
    return Thing(**data)


def place(value: Any, where: str) -> Any:
    """Return the value at a place; None where there is none.

    A place is a path of keys and numbers of items. The rest of a path may be one key: keys of log files have dots.
    """
    if not where:
        return value
    if isinstance(value, Mapping) and where in value:
        return value[where]
    head, _, rest = where.partition(".")
    if isinstance(value, list) and head.isdecimal():
        return place(value[int(head)], rest) if int(head) < len(value) else None
    return place(value[head], rest) if isinstance(value, Mapping) and head in value else None


def fill(template: Any, variables: Mapping[str, Any], *, depth: int = 0) -> Any:
    """Return a template with the values of its variables.

    A text that is one variable becomes its value, which need not be a text. ``{address:file}`` is a file below a signed address.

    Raises:
        MissingError: a variable is not known.
    """
    if isinstance(template, Mapping):
        return {
            fill(key, variables, depth=depth): fill(item, variables, depth=depth) for key, item in template.items()
        }
    if isinstance(template, list):
        return [fill(item, variables, depth=depth) for item in template]
    if not isinstance(template, str) or depth > _DEEPEST:
        return template
    whole = _VARIABLE.fullmatch(template)
    if whole is not None and whole[2] is None:
        return fill(_known(whole[1], variables), variables, depth=depth + 1)

    def one(match: re.Match[str]) -> str:
        value = str(fill(_known(match[1], variables), variables, depth=depth + 1))
        if match[2] is None:
            return value
        address, mark, query = value.partition("?")
        return f"{address.rstrip('/')}/{match[2]}.txt{mark}{query}"

    return _VARIABLE.sub(one, template)


def _known(name: str, variables: Mapping[str, Any]) -> Any:
    if variables.get(name) is None:
        raise MissingError(name)
    return variables[name]


def constants(script: Script) -> Iterator[str]:
    """Yield the texts of the script that hold no variable: they are no one's secret."""
    for step in script.steps:
        yield from _texts((step.body, step.form, step.text, step.headers))
    yield from _texts(script.variables)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _texts(list(value))
        yield from _texts(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        if _VARIABLE.search(value) is None:
            yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
