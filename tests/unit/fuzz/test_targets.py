"""The list of targets is complete, and each does what it says."""

from __future__ import annotations

from random import Random

import pytest

from fuzz.coverage import trace
from fuzz.loop import attempt, pool_of
from fuzz.mutation import Mutator, change
from fuzz.plan import THOUSANDS, share
from fuzz.readers import exempt, modules, readers
from fuzz.storage import CORPUS, ROOT, decode, encode
from fuzz.target import NAMES, load

#: Loaded before the guards of unit tests: azure.identity looks for a process when it is imported.
TARGETS = {name: load(name) for name in NAMES}
#: They send requests to an application that each of them makes: a second, where others take milliseconds.
MOST_SEEDS = 60


def test_every_module_of_a_target_is_in_the_list() -> None:
    found = {path.stem for path in (ROOT / "fuzz/targets").glob("*.py") if not path.stem.startswith("_")}
    assert found == set(NAMES)
    assert list(NAMES) == sorted(NAMES)


def test_every_module_that_reads_text_has_a_target_or_a_reason() -> None:
    """A new parser fails here: write a target for it, or name the reason in fuzz/exempt.toml."""
    read = {module for name in NAMES for module in TARGETS[name].reads}
    missing = readers() - read - exempt().keys()
    assert sorted(missing) == []


def test_exemptions_are_of_readers_without_a_target() -> None:
    read = {module for name in NAMES for module in TARGETS[name].reads}
    assert sorted(exempt().keys() - readers()) == []
    assert sorted(exempt().keys() & read) == []
    assert all(len(reason) > 20 for reason in exempt().values())


def test_targets_name_modules_that_exist() -> None:
    for name in NAMES:
        assert sorted(set(TARGETS[name].reads) - modules().keys()) == [], name


@pytest.mark.parametrize("name", NAMES)
def test_seeds_enter_the_modules_that_a_target_reads(name: str) -> None:
    target, paths = TARGETS[name], modules()
    missing = {str(paths[module]): module for module in target.reads}
    for seed in target.seeds():
        if not missing:
            break
        for file in trace(target.check, seed)[1]:
            missing.pop(file, None)
    assert sorted(missing.values()) == []


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_the_corpus_are_read(name: str) -> None:
    target = TARGETS[name]
    pool = pool_of(name, target)
    assert pool
    for value in pool[:MOST_SEEDS]:
        assert attempt(target, value) is None, value
        assert decode(encode(value, target.kind), target.kind) == value


@pytest.mark.parametrize("name", NAMES)
def test_mutations_are_the_same_for_a_seed_and_differ_from_the_input(name: str) -> None:
    target = TARGETS[name]
    pool = list(target.seeds())[:MOST_SEEDS]

    def made() -> list[object]:
        rng = Random(5)  # noqa: S311 - to be repeated
        mutator = Mutator(rng, target.words, pool)
        return [change(target.mutate, mutator, rng.choice(pool)) for _ in range(20)]

    first = made()
    assert repr(first) == repr(made())
    assert sum(repr(one) not in map(repr, pool) for one in first) >= 10


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 300_000


def test_a_night_tries_a_million_inputs() -> None:
    assert THOUSANDS.keys() == set(NAMES)
    assert sum(share(name, 1_000_000) for name in NAMES) >= 999_900
    assert min(THOUSANDS.values()) >= 1
