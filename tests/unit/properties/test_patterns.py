"""Every regular expression of the product ends in time on texts that almost match it, repeated."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aml_emulator
import aml_train
import aml_train_action

#: They import what is no dependency of every machine, or run in users' images by themselves.
LEFT_OUT = ("__main__", "run_flush_site")


def patterns() -> dict[str, re.Pattern[Any]]:
    """Return the compiled expressions of all modules, by module and name."""
    found: dict[str, re.Pattern[Any]] = {}
    for package in (aml_train, aml_emulator, aml_train_action):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(LEFT_OUT):
                for name, value in vars(importlib.import_module(module.name)).items():
                    if isinstance(value, re.Pattern):
                        found.setdefault(f"{module.name}.{name}", value)
    return found


@pytest.mark.full
def test_patterns() -> None:
    for name, pattern in patterns().items():
        in_time(name, pattern)


def in_time(name: str, pattern: re.Pattern[Any]) -> None:
    # hypothesis knows no bytes without regard to case.
    binary = isinstance(pattern.pattern, bytes)
    like = re.compile(pattern.pattern, pattern.flags & ~re.IGNORECASE if binary else pattern.flags)

    @settings(max_examples=5, suppress_health_check=list(HealthCheck))
    @given(
        text=st.from_regex(like, alphabet=None if binary else st.characters()),
        at=st.integers(0, 50),
        size=st.integers(1, 6),
        end=st.sampled_from(["", "!", "\0", "\n"]),
    )
    def case(text: Any, at: int, size: int, end: str) -> None:
        last = end.encode() if isinstance(text, bytes) else end
        subject = (text[:at] + text[at : at + size] * 1000 + last + text[at + size :])[:4000]
        began = time.process_time()
        pattern.fullmatch(subject)
        pattern.search(subject)
        assert time.process_time() - began < 1.0, name

    case()
