"""Inputs of the action, its event's payload."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aml_train.core.errors import InvalidError
from aml_train_action.github.payload import read_payload
from aml_train_action.github.proposals import read_event
from aml_train_action.inputs.inputs import read_inputs
from fuzz.storage import scratch
from fuzz.target import Target, require

_SECRET = "Zq8-the-secret-Xw4"  # noqa: S105 - it must not be shown
_SECRETS = ("creds", "client-secret")
CREDENTIALS = json.dumps({"clientId": "c", "clientSecret": _SECRET, "tenantId": "t", "subscriptionId": "s"})
_NAMES = (
    *(
        "command",
        "config",
        "target",
        "job",
        "set",
        "wait",
        "fresh",
        "force-build",
        "working-directory",
        "log-level",
        "timeout",
    ),
    *(
        "client-id",
        "tenant-id",
        "subscription-id",
        "client-secret",
        "creds",
        "environment",
        "resource-group",
        "workspace",
    ),
    *(
        "registry",
        "compute",
        "on-cancel",
        "supersede",
        "secret-path",
        "name",
        "version",
    ),
    *("stage", "environment-name", "report", "attach", "no-register", "workflow"),
)


def seeds() -> Sequence[Any]:
    """Return inputs, with the event's payload."""
    payload = json.dumps({"repository": {"default_branch": "main"}, "pull_request": {"number": 7}})
    common = {"command": "run", "config": "c.yml", "set": "a.b=1\nc=x", "wait": "false", "timeout": "2h"}
    return [
        {"inputs": common, "payload": payload, "event": "push"},
        {
            "inputs": {"creds": CREDENTIALS, "environment": "AzureCloud", "command": "plan"},
            "payload": payload,
            "event": "schedule",
        },
        {"inputs": {"command": "report"}, "payload": payload, "event": "pull_request"},
        {
            "inputs": {"command": "promote", "name": "m", "version": "3", "stage": "production"},
            "payload": payload,
            "event": "x",
        },
        {
            "inputs": {"client-id": "c", "tenant-id": "t", "client-secret": _SECRET, "on-cancel": "detach"},
            "payload": "",
            "event": "",
        },
        {"inputs": dict.fromkeys(_NAMES, "x"), "payload": "[]", "event": "push"},
    ]


def _texts(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        return {}
    return {
        name: text for name, text in value.items() if isinstance(text, str) and "\0" not in text and "\0" not in name
    }


def check(value: Any) -> None:
    """Read the inputs of a step, and its event."""
    given = value if isinstance(value, dict) else {}
    folder = scratch("inputs")
    inputs = _texts(given.get("inputs"))
    environ = {f"INPUT_{name.upper()}": text for name, text in inputs.items()}
    payload = given.get("payload")
    # A secret that is written into another input, or into a file, is shown.
    elsewhere = [text for name, text in inputs.items() if name.lower() not in _SECRETS] + [str(payload), *inputs]
    hidden = not any(_SECRET in text for text in elsewhere)
    environ["GITHUB_EVENT_NAME"] = str(given.get("event"))
    file = folder / "event.json"
    file.write_bytes(str(payload).encode("utf-8", "surrogatepass"))
    environ["GITHUB_EVENT_PATH"] = str(file)
    try:
        read = read_inputs(environ, folder)
        require(not hidden or (_SECRET not in repr(read)), "a secret is in what is printed of the inputs")
        words = read.command_line(folder)
        require(not hidden or (not any(_SECRET in word for word in words)), "a secret is in a command line")
    except InvalidError as error:
        require(not hidden or (_SECRET not in str(error)), "a secret is in an error")
        require(error.faults or error.message, "a refusal says nothing")
    event = read_event(environ)
    require(event.default_branch is None or isinstance(event.default_branch, str), "the branch is no text")
    try:
        read_payload(environ)
    except InvalidError as error:
        require(str(error), "a refusal says nothing")


TARGET = Target(
    kind="json",
    reads=(
        "aml_train_action.inputs.inputs",
        "aml_train_action.inputs.azure",
        "aml_train_action.github.proposals",
        "aml_train_action.github.payload",
    ),
    seeds=seeds,
    check=check,
    words=(
        *_NAMES,
        "true",
        "false",
        "run",
        "plan",
        "attach",
        "2h",
        "0s",
        "AzureChinaCloud",
        "{",
        "}",
        "../x",
        "/abs",
        "a=b",
        "\n",
    ),
)
