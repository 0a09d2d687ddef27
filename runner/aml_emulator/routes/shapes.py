"""Shapes that several interfaces share: times, ARM resources, pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from aml_emulator.http import Call

USER = "aml-emulator"


def iso(moment: float | None) -> str | None:
    """Return a time, in seconds since the epoch, as ISO 8601 in UTC; None stays None."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def millis(moment: float | None) -> int | None:
    """Return a time, in seconds since the epoch, in milliseconds; None stays None."""
    return None if moment is None else int(moment * 1000)


def text(value: Any) -> str | None:
    """Return a tag's or a property's value as the service keeps it: as text, as JSON has it; None stays None."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def resource(
    arm_id: str, type_: str, properties: Mapping[str, Any], *, created: float, modified: float, **more: Any
) -> dict[str, Any]:
    """Return an ARM resource.

    Args:
        arm_id: its id; the last segment is its name.
        type_: its type below ``Microsoft.MachineLearningServices/``, for example ``workspaces/jobs``.
        properties: its properties.
        created: seconds since the epoch.
        modified: seconds since the epoch.
        more: further fields on the outermost level.
    """
    return {
        "id": arm_id,
        "name": arm_id.rpartition("/")[2],
        "type": f"Microsoft.MachineLearningServices/{type_}",
        "systemData": {
            "createdAt": iso(created),
            "createdBy": USER,
            "createdByType": "Application",
            "lastModifiedAt": iso(modified),
        },
        "properties": dict(properties),
        **more,
    }


def page(call: Call, items: Sequence[Any], *, offset: int, more: bool) -> dict[str, Any]:
    """Return a page of a list, with the link to the next one if there is more.

    Args:
        call: the request for this page; its other query parameters are kept in the link.
        items: this page's items, JSON.
        offset: how many items come before the next page.
        more: whether there is a next page.
    """
    answer: dict[str, Any] = {"value": list(items)}
    if more:
        query = {**call.query, "$skip": str(offset)}
        text = "&".join(f"{quote(key, safe='$-')}={quote(value, safe='')}" for key, value in query.items())
        answer["nextLink"] = f"https://{call.host}{quote(call.path, safe='/')}?{text}"
    return answer
