"""Inputs on disk: the corpus, which is small, and the examples, which failed once."""

from __future__ import annotations

import atexit
import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from fuzz.target import Kind

ROOT: Final = Path(__file__).resolve().parents[1]
CORPUS: Final = ROOT / "fuzz/corpus"
EXAMPLES: Final = ROOT / "tests/unit/fuzz/examples"
FOUND: Final = ROOT / ".aml-train/fuzz"
"""Inputs with new coverage that a guided run leaves, for `minimize`; git ignores the folder."""
SUFFIX: Final[dict[Kind, str]] = {"text": ".txt", "json": ".json"}


def encode(value: Any, kind: Kind) -> bytes:
    """Return an input as the content of a file."""
    if kind == "text":
        return str(value).encode("utf-8", "surrogatepass")
    return json.dumps(value, indent=1).encode()


def decode(data: bytes, kind: Kind) -> Any:
    """Return the input that a file holds."""
    return data.decode("utf-8", "surrogatepass") if kind == "text" else json.loads(data)


def name_of(value: Any, kind: Kind) -> str:
    """Return the name of an input's file: by its content."""
    return hashlib.sha256(encode(value, kind)).hexdigest()[:12] + SUFFIX[kind]


def read(folder: Path, kind: Kind) -> list[Any]:
    """Return the inputs of a folder by name; none if there is no folder."""
    return [decode(path.read_bytes(), kind) for path in sorted(folder.glob(f"*{SUFFIX[kind]}"))]


def write(folder: Path, value: Any, kind: Kind) -> Path:
    """Write an input; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name_of(value, kind)
    path.write_bytes(encode(value, kind))
    return path


@cache
def scratch(name: str) -> Path:
    """Return an empty folder that this process keeps until its end."""
    made = tempfile.TemporaryDirectory(prefix=f"aml-train-fuzz-{name}-")
    atexit.register(made.cleanup)
    return Path(made.name)
