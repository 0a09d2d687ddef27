"""Recordings of Azure's test proxy (JSON) and of VCR (YAML), read into one form."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One request and its answer.

    Attributes:
        sent: the request's body: JSON, or None if there is none or none that is JSON.
        answer: the answer's body, likewise; a text that is not JSON stays a text.
    """

    method: str
    url: str
    status: int
    headers: Mapping[str, str]
    sent: Any
    answer: Any


def read_recording(file: Path) -> list[Entry]:
    """Return the exchanges of a recording.

    Raises:
        ValueError: it is neither of the two forms.
    """
    text = file.read_text(encoding="utf-8")
    try:
        data = json.loads(text) if file.suffix == ".json" else yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ValueError("it is not YAML") from error
    if isinstance(data, dict) and isinstance(data.get("Entries"), list):
        return [_of_proxy(one) for one in data["Entries"]]
    if isinstance(data, dict) and isinstance(data.get("interactions"), list):
        return [_of_vcr(one) for one in data["interactions"] if (one["response"].get("status") or {}).get("code")]
    raise ValueError("it has neither 'Entries' nor 'interactions'")


def _of_proxy(one: Mapping[str, Any]) -> Entry:
    return Entry(
        method=one["RequestMethod"],
        url=one["RequestUri"],
        status=int(one["StatusCode"]),
        headers={key: str(value) for key, value in (one.get("ResponseHeaders") or {}).items()},
        sent=_parsed(one.get("RequestBody")),
        answer=_parsed(one.get("ResponseBody")),
    )


def _of_vcr(one: Mapping[str, Any]) -> Entry:
    request, response = one["request"], one["response"]
    body = response.get("body")
    return Entry(
        method=request["method"],
        url=request["uri"],
        status=int(response["status"]["code"]),
        headers={key: str(value) for key, value in (response.get("headers") or {}).items()},
        sent=_parsed(request.get("body")),
        answer=_parsed(body.get("string") if isinstance(body, dict) else body),
    )


def _parsed(body: Any) -> Any:
    """Return a body as JSON if it is JSON, regardless of how it was stored."""
    if isinstance(body, list) and all(isinstance(part, str) for part in body):
        body = "".join(body)
    if isinstance(body, bytes):
        body = _text(body)
    if not isinstance(body, str):
        return body
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return _parsed_base64(body)


def _parsed_base64(body: str) -> Any:
    try:
        return json.loads(_text(base64.b64decode(body, validate=True)))
    except (ValueError, binascii.Error):
        return body


def _text(data: bytes) -> str:
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.decode("utf-8", errors="replace")
