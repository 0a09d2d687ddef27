"""The examples in the documentation of the public names do what they say."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator

import pytest

import aml_train
from aml_train.testing import MemoryService


def documented() -> Iterator[tuple[str, object]]:
    """Yield each public name and each public method."""
    for name in aml_train.__all__:
        value = getattr(aml_train, name)
        if inspect.ismodule(value):
            continue
        yield name, value
        if inspect.isclass(value) and value.__module__.startswith("aml_train.api"):
            for inner, method in vars(value).items():
                if not inner.startswith("_") and (inspect.isfunction(method) or isinstance(method, classmethod)):
                    yield f"{name}.{inner}", getattr(value, inner)


#: Names whose examples are those of others.
WITHOUT = {"__version__", "Compared", "Histories", "JobList", "CancelToken", "RunOptions", "RunResult", "rollback"}
EXAMPLES = dict(documented())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_says(name: str, memory: MemoryService) -> None:
    globs = {public: getattr(aml_train, public) for public in aml_train.__all__}
    text = inspect.getdoc(EXAMPLES[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, dict(globs), name, None, None)
    if "Workspace" in name or name in ("compare", "promote"):
        aml_train.run(aml_train.load_config())
    output: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=output.append)
    assert not results.failed, "".join(output)
    assert results.attempted or "." in name or name in WITHOUT, "an example is missing"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_public_name_is_documented_and_returns_what_is_public(name: str) -> None:
    value = EXAMPLES[name]
    if name != "__version__":
        assert inspect.getdoc(value)
    returned = inspect.signature(value).return_annotation if inspect.isroutine(value) else ""
    assert set(re.findall(r"[A-Z]\w+", returned)) <= {*aml_train.__all__, "Any", "Path", "Self"}
