"""Which modules of the product read text from outside.

The convention: a module is a reader if it calls one of `CALLS`, which turn text or bytes into values, or has a function whose name
begins with one of `NAMES`. Regular expressions alone make no reader: the target `patterns` tries all of them. A reader is read by a
target (`Target.reads`), or is in exempt.toml with the reason.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fuzz.storage import ROOT

CALLS: Final = frozenset(
    {
        *("json.loads", "json.load", "msgspec.json.decode", "msgspec.json.Decoder", "tomllib.load", "tomllib.loads"),
        *("yaml.compose", "yaml.load", "yaml.safe_load", "yaml.parse", "yaml.scan", "configparser.ConfigParser"),
        *(
            "ast.parse",
            "ast.literal_eval",
            "shlex.split",
            "shlex.shlex",
            "csv.reader",
            "urlsplit",
            "urlparse",
            "parse_qs",
        ),
        *(
            "parse_qsl",
            "unquote",
            "base64.b64decode",
            "base64.urlsafe_b64decode",
            "binascii.unhexlify",
            "bytes.fromhex",
        ),
        *("zipfile.ZipFile", "tarfile.open", "JUnitXml.fromstring", "ElementTree.fromstring", "ET.fromstring"),
        *("datetime.fromisoformat", "datetime.datetime.fromisoformat", "datetime.strptime", "parsedate_to_datetime"),
        *("pathspec.PathSpec.from_lines", "pathspec.GitIgnoreSpec.from_lines", "Requirement", "SpecifierSet"),
    }
)
NAMES: Final = ("parse", "decode")
FOLDERS: Final = ("runner/aml_train", "runner/aml_emulator", "action/aml_train_action")


@functools.cache
def readers() -> frozenset[str]:
    """Return the names of the modules that read."""
    return frozenset(name for name, path in modules().items() if _reads(path))


def modules() -> Mapping[str, Path]:
    """Return the product's modules by their names."""
    found = {}
    for folder in FOLDERS:
        start = (ROOT / folder).parent
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(start).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def exempt() -> Mapping[str, str]:
    """Return the readers that need no target: module → reason."""
    with (ROOT / "fuzz/exempt.toml").open("rb") as file:
        return {name: reason for reason, names in tomllib.load(file).items() for name in names["modules"]}


def _reads(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(name in CALLS for name in _called(tree)) or any(
        isinstance(node, ast.FunctionDef) and node.name.lstrip("_").split("_")[0] in NAMES for node in ast.walk(tree)
    )


def _called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield _dotted(node.func)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return node.id if isinstance(node, ast.Name) else ""
