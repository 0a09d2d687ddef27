"""docs/troubleshooting.md quotes messages that the product has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
PRODUCT = sorted((*ROOT.glob("runner/aml_train/**/*.py"), *ROOT.glob("action/**/*.py")))
FIELD = "…"


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts of a module: each string, with its replacement fields as one sign."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(one.value) if isinstance(one, ast.Constant) else FIELD for one in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # The fields of str.format: {name}.
        yield re.sub(r"\{\w+\}", FIELD, node.value)
    for below in ast.iter_child_nodes(node):
        yield from texts(below)


@pytest.fixture(scope="module")
def product() -> str:
    """All texts of the product, each on one line."""
    modules = (ast.parse(path.read_text(encoding="utf-8")) for path in PRODUCT)
    found = dict.fromkeys(" ".join(text.split()) for module in modules for text in texts(module) if " " in text)
    return "\n".join(found)


def quoted() -> list[str]:
    """Return the messages of the first columns: whole cells of code, without those of Entra ID."""
    cells = re.findall(r"(?m)^\| (`` .+? ``|`[^`|]+`) \|", PAGE)
    return [cell.strip("`").strip() for cell in cells if not cell.startswith("`AADSTS")]


def says(product: str, message: str) -> bool:
    """Return whether one text of the product has the message's fixed parts, in their order."""
    parts = [re.escape(part.strip()) for part in message.split(FIELD) if part.strip()]
    return re.search(".*".join(parts), product) is not None


def test_the_page_quotes_many_messages() -> None:
    assert len(quoted()) > 60


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_one_of_the_product(message: str, product: str) -> None:
    fixed = message.replace(FIELD, "").strip(" .:()")
    assert len(fixed) > 8, "too little to find a message by"
    assert says(product, message), f"no message of the product says {message!r}"


def test_a_changed_message_is_found(product: str) -> None:
    assert not says(product, "The workspace … has no registry at all.")
