"""The roles of the service principal: permissions, and what the registry's tokens allow."""

from __future__ import annotations

import pytest

from aml_emulator.identity.roles import BUILT_IN, Roles

ALL = frozenset({"pull", "push", "delete", "metadata_read", "metadata_write", "*"})


def test_everything_is_allowed_at_the_beginning() -> None:
    roles = Roles()
    assert roles.permissions("workspace") == [BUILT_IN["Owner"].view()]
    assert roles.registry_actions() == ALL
    assert [one["dataActions"] for one in roles.permissions("storage")] == [
        [], list(BUILT_IN["Storage Blob Data Contributor"].data_actions)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), frozenset()),
        (("AcrPull",), frozenset({"pull", "metadata_read"})),
        (("AcrPush",), frozenset({"pull", "push", "metadata_read", "metadata_write"})),
        (("AcrPush", "AcrDelete"), ALL),
        (("Reader",), frozenset({"pull", "metadata_read"})),
        (("Contributor",), ALL),
    ],
)
def test_what_the_tokens_of_the_registry_allow(names: tuple[str, ...], expected: frozenset[str]) -> None:
    roles = Roles()
    roles.set("registry", names)
    assert roles.registry_actions() == expected
    # What the subscription gave remains at the other places.
    assert roles.permissions("workspace") == [BUILT_IN["Owner"].view()]
    roles.reset()
    assert roles.registry_actions() == ALL


@pytest.mark.parametrize(("place", "names"), [("moon", ("Owner",)), ("registry", ("Boss",))])
def test_an_unknown_place_or_role(place: str, names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="one of"):
        Roles().set(place, names)
