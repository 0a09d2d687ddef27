"""Azure's roles: what a permission allows, and how a role is assigned. Pure.

Source: https://learn.microsoft.com/azure/role-based-access-control/role-definitions.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterable, Mapping, Sequence

from aml_train.core.answers import Answer

Permission = Mapping[str, Sequence[str]]
"""Patterns under ``actions`` and ``notActions``."""


def permission_of(answer: Answer) -> Permission:
    """Return one of the permissions of a role, or of a caller."""
    return {key: answer.list_of_texts(key) for key in ("actions", "notActions")}


def allows(permission: Permission, action: str) -> bool:
    """Return whether a permission includes *action*."""
    if not any(_matches(action, one) for one in permission.get("actions") or ()):
        return False
    # AzureML Data Scientist excludes computes/*/write, and so the creation of computes, which is computes/write:
    # https://learn.microsoft.com/azure/machine-learning/how-to-assign-roles#default-roles.
    return not any(
        _matches(action, one) or _matches(action, one.replace("/*/", "/"))
        for one in permission.get("notActions") or ()
    )


def _matches(action: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(action.lower(), pattern.lower())


def missing(permissions: Iterable[Permission], actions: Iterable[str]) -> tuple[str, ...]:
    """Return the actions that none of *permissions* allows."""
    known = tuple(permissions)
    return tuple(action for action in actions if not any(allows(one, action) for one in known))


def assignment(role: str, scope: str, principal: str, *, user: bool = False) -> str:
    """Return the command that assigns *role*.

    Args:
        role: its name.
        scope: the resource id.
        principal: an object id; empty if it is not known.
        user: whether the principal is a person, and no application.
    """
    kind = "User" if user else "ServicePrincipal"
    who = (
        f"--assignee-object-id {principal} --assignee-principal-type {kind}" if principal else "--assignee CLIENT_ID"
    )
    return f"az role assignment create {who} --role {shlex.quote(role)} --scope {shlex.quote(scope)}"
