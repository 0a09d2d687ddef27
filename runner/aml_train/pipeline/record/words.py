"""The words of the product's source: what a bundle may hold as it is."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final

#: Fields and words of the services' answers that the source does not name.
_FIELDS: Final = Path(__file__).with_name("fields.txt")
#: Parameters of the addresses of storage, and abbreviations of dates.
_FURTHER: Final = (
    "st se sp sr sv sig skoid sktid skt ske sks skv rscd comp blockid restype spr"
    " gmt mon tue wed thu fri sat sun jan feb mar apr may jun jul aug sep oct nov dec"
)
_WORD: Final = re.compile(r"[^\W_]+|[^\x00-\x7f]")
_ID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


@functools.cache
def product_words() -> frozenset[str]:
    """Return every word and id of the source and of answers, in lower case."""
    lines = _FIELDS.read_text(encoding="utf-8").splitlines()
    found = {*_FURTHER.split(), *(word for line in lines if not line.startswith("#") for word in line.split())}
    for file in Path(__file__).parents[2].rglob("*.py"):
        text = file.read_text(encoding="utf-8").lower()
        found.update(_WORD.findall(text), _ID.findall(text))
    # Hexadecimal digests and long numbers of the source say nothing.
    return frozenset(word for word in found if len(word) <= 60)
