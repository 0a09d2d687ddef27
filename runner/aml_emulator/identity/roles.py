"""Azure's built-in roles, and those that the one service principal has.

Definitions: https://learn.microsoft.com/azure/role-based-access-control/built-in-roles.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

Place = Literal["subscription", "workspace", "registry", "storage"]
"""A resource that roles are assigned at; those of the subscription apply to the others, too."""

_ML: Final = "Microsoft.MachineLearningServices"
_ACR: Final = "Microsoft.ContainerRegistry/registries"
_BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers"


@dataclass(frozen=True, kw_only=True)
class Role:
    """The permissions of a role, as patterns of operations."""

    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()
    data_actions: tuple[str, ...] = ()

    def view(self) -> dict[str, list[str]]:
        """Return the permission as Azure Resource Manager shows it."""
        return {
            "actions": list(self.actions),
            "notActions": list(self.not_actions),
            "dataActions": list(self.data_actions),
            "notDataActions": [],
        }

    def allows(self, action: str) -> bool:
        """Return whether the role includes an action of the control plane."""

        def among(patterns: tuple[str, ...]) -> bool:
            return any(fnmatch.fnmatchcase(action.lower(), one.lower()) for one in patterns)

        return among(self.actions) and not among(self.not_actions)


BUILT_IN: Final[Mapping[str, Role]] = {
    "Owner": Role(actions=("*",)),
    "Contributor": Role(
        actions=("*",),
        not_actions=(
            "Microsoft.Authorization/*/Delete",
            "Microsoft.Authorization/*/Write",
            "Microsoft.Authorization/elevateAccess/Action",
        ),
    ),
    "Reader": Role(actions=("*/read",)),
    "AzureML Data Scientist": Role(
        actions=tuple(f"{_ML}/workspaces/*/{one}" for one in ("read", "action", "delete", "write")),
        not_actions=(
            f"{_ML}/workspaces/delete",
            f"{_ML}/workspaces/write",
            f"{_ML}/workspaces/computes/*/write",
            f"{_ML}/workspaces/computes/*/delete",
            f"{_ML}/workspaces/computes/listKeys/action",
            f"{_ML}/workspaces/listKeys/action",
        ),
    ),
    "AzureML Compute Operator": Role(actions=(f"{_ML}/workspaces/computes/*", f"{_ML}/workspaces/notebooks/vm/*")),
    "AcrPull": Role(actions=(f"{_ACR}/pull/read",)),
    "AcrPush": Role(actions=(f"{_ACR}/pull/read", f"{_ACR}/push/write")),
    "AcrDelete": Role(actions=(f"{_ACR}/artifacts/delete",)),
    "Storage Blob Data Reader": Role(actions=(f"{_BLOBS}/read",), data_actions=(f"{_BLOBS}/blobs/read",)),
    "Storage Blob Data Contributor": Role(
        actions=(f"{_BLOBS}/delete", f"{_BLOBS}/read", f"{_BLOBS}/write"),
        data_actions=tuple(
            f"{_BLOBS}/blobs/{one}" for one in ("delete", "read", "write", "move/action", "add/action")
        ),
    ),
}
_INITIAL: Final[Mapping[Place, tuple[str, ...]]] = MappingProxyType(
    {"subscription": ("Owner",), "storage": ("Storage Blob Data Contributor",)}
)
#: Action of a registry's token → the operation that allows it: https://learn.microsoft.com/azure/container-registry/container-registry-roles.
_REGISTRY: Final = {
    "pull": f"{_ACR}/pull/read",
    "metadata_read": f"{_ACR}/pull/read",
    "push": f"{_ACR}/push/write",
    "metadata_write": f"{_ACR}/push/write",
    "delete": f"{_ACR}/artifacts/delete",
}


class Roles:
    """The role assignments of the one service principal; none outlives the process.

    They decide what the permissions interface answers, and what the tokens of the registry allow. Other operations remain
    allowed: use a fault to refuse one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._assigned: dict[Place, tuple[str, ...]] = dict(_INITIAL)

    def set(self, place: str, names: tuple[str, ...]) -> None:
        """Replace the roles at *place*, and those of the subscription by none.

        Raises:
            ValueError: there is no such place or role.
        """
        if place not in get_args(Place):
            raise ValueError(f"place: one of {', '.join(get_args(Place))}, not '{place}'")
        unknown = [name for name in names if name not in BUILT_IN]
        if unknown:
            raise ValueError(f"role: one of {', '.join(BUILT_IN)}, not '{unknown[0]}'")
        with self._lock:
            changed: dict[Place, tuple[str, ...]] = dict(self._assigned)
            if place != "subscription":
                # The subscription's roles stay at the other places.
                above = changed.pop("subscription", ())
                for other in get_args(Place)[1:]:
                    changed[other] = tuple(dict.fromkeys((*changed.get(other, ()), *above)))
            for one in get_args(Place):
                if one == place:
                    changed[one] = names
            self._assigned = changed

    def reset(self) -> None:
        """Restore the roles of the beginning: everything is allowed."""
        with self._lock:
            self._assigned = dict(_INITIAL)

    def listed(self) -> dict[str, list[str]]:
        """Return the roles by place."""
        return {place: list(names) for place, names in self._assigned.items()}

    def at(self, place: Place) -> tuple[Role, ...]:
        """Return the roles that apply at a resource."""
        names = dict.fromkeys((*self._assigned.get("subscription", ()), *self._assigned.get(place, ())))
        return tuple(BUILT_IN[name] for name in names)

    def permissions(self, place: Place) -> list[dict[str, Any]]:
        """Return the permissions of the caller, as Azure Resource Manager shows them."""
        return [role.view() for role in self.at(place)]

    def registry_actions(self) -> frozenset[str]:
        """Return the actions that the tokens of the registry may allow."""
        roles = self.at("registry")
        granted = {name for name, action in _REGISTRY.items() if any(role.allows(action) for role in roles)}
        return frozenset(granted | {"*"} if granted >= _REGISTRY.keys() else granted)
