"""Shapes that several interfaces share: times, ARM resources, pages."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

from aml_emulator.api.routing import Call, Reply
from aml_emulator.domain.errors import InvalidError

MANAGEMENT_HOST: Final = "management.azure.com"


def response_headers(status: int, *, seconds: float) -> dict[str, str]:
    """Return the headers of an answer, without those of its body.

    Args:
        seconds: how long the answer took.
    """
    request = str(uuid.uuid4())
    return {
        "x-ms-request-id": request,
        "x-ms-correlation-request-id": request,
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
        "azureml-served-by-cluster": "local-azureml",
        "x-ms-response-type": "error" if status >= 400 else "standard",
        "x-request-time": f"{seconds:.3f}",
    }


Item = TypeVar("Item")

HISTORY_PAGE = 500
"""How many items a page of run history has."""

USER = "aml-emulator"
PROVIDER = "Microsoft.MachineLearningServices"


def iso(moment: float | None) -> str | None:
    """Return a time, in seconds since the epoch, as ISO 8601 in UTC; None stays None."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def millis(moment: float | None) -> int | None:
    """Return a time, in seconds since the epoch, in milliseconds; None stays None."""
    return None if moment is None else int(moment * 1000)


def resource(
    arm_id: str, type_: str, properties: Mapping[str, Any], *, created: float, modified: float, **more: Any
) -> dict[str, Any]:
    """Return an ARM resource.

    Args:
        arm_id: its id; the last segment is its name.
        type_: its type, for example ``workspaces/jobs``; in a workspace ``Microsoft.MachineLearningServices/`` comes before it.
        created: seconds since the epoch.
        modified: seconds since the epoch.
        more: further fields on the outermost level.
    """
    return {
        "id": arm_id,
        "name": arm_id.rpartition("/")[2],
        "type": f"{PROVIDER}/{type_}" if type_.startswith("workspaces") else type_,
        "systemData": {
            "createdAt": iso(created),
            "createdBy": USER,
            "createdByType": "Application",
            "lastModifiedAt": iso(modified),
            "lastModifiedBy": USER,
            "lastModifiedByType": "Application",
        },
        "properties": dict(properties),
        **more,
    }


def created(call: Call, value: dict[str, Any], *, new: bool) -> Reply:
    """Return the answer to a PUT: 201 with the address of a new resource, or 200."""
    if not new:
        return Reply(status=200, value=value)
    return Reply(status=201, value=value, headers={"Location": address_of(call)})


def address_of(call: Call, changed: Mapping[str, str] | None = None) -> str:
    """Return the request's own address, with *changed* parameters of its query."""
    query = {**call.query, **(changed or {})}
    text = "&".join(f"{quote(key, safe='$-')}={quote(given, safe='')}" for key, given in query.items())
    return f"https://{call.host}{quote(call.path, safe='/:%')}" + (f"?{text}" if text else "")


def archived_of(call: Call) -> bool | None:
    """Return whether a list shows archived items (True), the others, or all (None).

    azure-ai-ml 1.35 lists the models of a registry by its constant's name, ``ListViewType.ACTIVE_ONLY``.

    Raises:
        InvalidError: an unknown ``listViewType``.
    """
    given = call.option("listViewType") or "ActiveOnly"
    views = {"activeonly": False, "archivedonly": True, "all": None}
    view = given.lower().removeprefix("listviewtype.").replace("_", "")
    if view not in views:
        raise InvalidError(f"The listViewType '{given}' is invalid: ActiveOnly, ArchivedOnly or All.")
    return views[view]


def cut(items: Sequence[Item], start: int, size: int) -> tuple[Sequence[Item], int | None]:
    """Return a page of a list, and where the next one begins; None for the last page."""
    end = start + size
    return items[start:end], end if end < len(items) else None


def page(call: Call, items: Sequence[Any], following: int | str | None) -> dict[str, Any]:
    """Return a page of a list of Azure Resource Manager.

    Args:
        call: the request for this page; its other query parameters are kept in the link to the next one.
        items: this page's items, JSON.
        following: where the next page begins, for ``$skip``; None for the last page.
    """
    answer: dict[str, Any] = {"value": list(items)}
    if following is not None:
        answer["nextLink"] = address_of(call, {"$skip": str(following)})
    return answer


def listed(items: Sequence[Any], following: int | None = None) -> dict[str, Any]:
    """Return a page of a list for azureml-core, with the token of the next one."""
    return {"value": list(items), "continuationToken": None if following is None else str(following)}


def continued(
    call: Call, items: Sequence[Item], *, key: Callable[[Item], str], view: Callable[[Item], Any]
) -> dict[str, Any]:
    """Return a page of a list of run history, with the link to the next one.

    Args:
        items: the whole list, in the order of *key*.
        key: distinguishes items; the last one of a page is its token, so that a page neither repeats
            nor leaves out what was there, whatever comes in meanwhile.
        view: makes JSON of an item.
    """
    after = call.query.get("continuationToken", "")
    left = [item for item in items if not after or key(item) > after]
    shown, more = left[:HISTORY_PAGE], len(left) > HISTORY_PAGE
    token = key(shown[-1]) if more else None
    return {
        "value": [view(item) for item in shown],
        "continuationToken": token,
        "nextLink": None if token is None else address_of(call, {"continuationToken": token}),
    }
