"""Dataclasses with shared methods behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from dataclasses import field

import pytest

from aml_train.core.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Ours:
    """A value."""

    name: str
    secret: str = field(default="", repr=False)
    parts: list[int] = field(default_factory=list, compare=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Theirs:
    """The same by the standard library."""

    name: str
    secret: str = field(default="", repr=False)
    parts: list[int] = field(default_factory=list, compare=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


@dataclass(frozen=True, kw_only=True)
class Derived(Ours):
    """One with a further field."""

    more: int = 1


@dataclass(frozen=True, kw_only=True)
class Special:
    """One with separate methods."""

    name: str

    def __repr__(self) -> str:
        return "special"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Special)

    def __hash__(self) -> int:
        return 7


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_values_are_compared_shown_and_kept(kind: type[Ours]) -> None:
    one, same, other = kind(name="a", secret="s", parts=[1]), kind(name="a", secret="s"), kind(name="b")
    assert one == same
    assert one != other
    assert one.__eq__("a") is NotImplemented
    assert hash(one) == hash(same) == hash(("a", "s", 1))
    assert repr(one) == f"{kind.__name__}(name='a', parts=[1], length=1)"
    assert other.parts == []
    assert other.parts is not kind(name="b").parts
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del one.name
    assert copy.deepcopy(one) == one


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_the_library_s_functions_take_them(kind: type[Ours]) -> None:
    one = kind(name="a")
    assert dataclasses.is_dataclass(one)
    assert dataclasses.replace(one, name="abc").length == 3
    assert dataclasses.asdict(one) == {"name": "a", "secret": "", "parts": [], "length": 1}
    assert [one.name for one in dataclasses.fields(kind)] == ["name", "secret", "parts", "length"]
    shown = inspect.signature(kind).parameters
    assert list(shown) == ["name", "secret", "parts"]
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in shown.values())
    assert [one.default is inspect.Parameter.empty for one in shown.values()] == [True, False, False]


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_wrong_arguments_are_type_errors(kind: type[Ours]) -> None:
    with pytest.raises(TypeError, match="name"):
        kind()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="length"):
        kind(name="a", length=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        kind("a")  # type: ignore[call-arg]


def test_a_derived_class_has_the_fields_of_both() -> None:
    one = Derived(name="ab", more=2)
    assert (one.length, one.more) == (2, 2)
    assert one != Ours(name="ab")
    assert repr(one) == "Derived(name='ab', parts=[], length=2, more=2)"


def test_a_class_keeps_methods_of_its_own() -> None:
    one = Special(name="a")
    assert repr(one) == "special"
    assert one == Special(name="b")
    assert hash(one) == 7


@dataclass(kw_only=True)
class OursChanging:
    """A value that changes."""

    name: str
    parts: list[str] = field(default_factory=list)


@dataclasses.dataclass(kw_only=True)
class TheirsChanging:
    """The same by the standard library."""

    name: str
    parts: list[str] = field(default_factory=list)


@pytest.mark.parametrize("kind", [OursChanging, TheirsChanging])
def test_values_that_change_have_no_hash(kind: type[OursChanging]) -> None:
    one = kind(name="a")
    one.name = "b"
    one.parts.append("c")
    assert one == kind(name="b", parts=["c"])
    assert repr(one) == f"{kind.__name__}(name='b', parts=['c'])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(TypeError, match="name"):
        kind()  # type: ignore[call-arg]


def test_other_kinds_are_those_of_the_library() -> None:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Slotted:
        name: str

    assert not hasattr(Slotted(name="a"), "__dict__")
