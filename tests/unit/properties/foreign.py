"""Foreign input: texts and trees near valid ones, and a decorator that gives them to a property.

Seeds are valid inputs; one that failed once stands in ``examples/PROPERTY``. Each is tried as it is, before changes of any of them.
"""

from __future__ import annotations

import atexit
import copy
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLES: Final = Path(__file__).with_name("examples")
PIECES: Final = (
    *("\0", "\t", "\n", "\r", "\r\n", " ", "\x1b[31m", "\x85", "\u2028", "\ufeff", "\ud800", "\u0663", "\u202e", "'", '"', "`", "\\"),
    *("/", "//", "../", ".", ",", ":", ": ", "=", "|", "&", "#", "(", ")", "[", "]", "{", "}", "<", "<!--", "]]>", "${{", "}}", "$(", "%"),
    *("%00", "*", "**", "?", "!", "@", "~", "^", "-", "--", "- ", "0", "-1", "9" * 30, "9" * 4400, "1e999", "nan", "null", "2020-99-99"),
    *("1:30", "<<", "&a ", "*a", "!!int ", "|\n", "---\n", "? ", "sha256:", "azureml:", "https://", "javascript:1"),
)  # fmt: skip
"""What grammars often trip over."""
_Test = TypeVar("_Test", bound=Callable[..., None])


@cache
def files(*patterns: str) -> tuple[str, ...]:
    """Return the texts of the repository's files that match, by path."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return tuple(path.read_text(encoding="utf-8") for path in sorted(found))


@cache
def scratch(name: str) -> Path:
    """Return an empty folder that this process keeps until its end."""
    made = tempfile.TemporaryDirectory(prefix=f"aml-train-{name}-")
    atexit.register(made.cleanup)
    return Path(made.name)


def as_bytes(text: str) -> bytes:
    """Return a text as bytes, its lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


@st.composite
def texts(draw: st.DrawFn, seeds: Sequence[str], words: Sequence[str] = ()) -> str:
    """Draw a seed with up to four changes."""
    text = draw(st.sampled_from(seeds))
    pieces = st.sampled_from([*words, *PIECES]) | st.text(max_size=3)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        removed = draw(st.sampled_from((0, 0, 1, 5, 40)))
        added = draw(pieces) * draw(st.sampled_from((1, 1, 1, 0, 3, 1000)))
        text = text[:at] + added[:20_000] + text[at + removed :]
    return text


@st.composite
def trees(draw: st.DrawFn, seeds: Sequence[str], words: Sequence[str] = ()) -> str:
    """Draw a seed in YAML or JSON with changes of its text, or with up to three changes of what it means."""
    tree = _parsed(draw(st.sampled_from(seeds)))
    if not isinstance(tree, dict | list) or draw(st.booleans()):
        return draw(texts(seeds, words))
    tree = copy.deepcopy(tree)
    word = st.sampled_from([*words, *PIECES])
    value: st.SearchStrategy[Any] = (
        st.none() | st.booleans() | st.integers() | st.floats() | word | st.just([]) | st.just({}) | st.lists(word)
    )
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        match draw(st.integers(0, 4)):
            case 0:
                del holder[key]
            case 1:
                holder[key] = {draw(word): holder[key]}
            case 2:
                holder[key] = [holder[key]] * 2
            case _:
                holder[key] = draw(value)
    return json.dumps(tree, default=str)


@cache
def _parsed(seed: str) -> Any:
    try:
        return yaml.safe_load(seed)
    except (yaml.YAMLError, ValueError):
        return None


def _places(value: Any, depth: int = 30) -> Iterator[tuple[Any, Any]]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) and depth else ()
    )
    for key, member in list(members):
        yield value, key
        yield from _places(member, depth - 1)


def foreign(seeds: Sequence[str], words: str | Sequence[str] = (), *, tree: bool = False) -> Callable[[_Test], _Test]:
    """Give a property foreign texts, as its argument ``text``.

    Args:
        seeds: valid inputs.
        words: pieces of the grammar; a text is divided at spaces.
        tree: the inputs are YAML or JSON.
    """

    def decorate(test: _Test) -> Any:
        pieces = words.split() if isinstance(words, str) else words
        given_texts = given(text=trees(seeds, pieces) if tree else texts(seeds, pieces))(test)
        folder = EXAMPLES / test.__name__.removeprefix("test_")
        for text in (*seeds, *(as_text(path.read_bytes()) for path in sorted(folder.glob("*")))):
            given_texts = example(text=text)(given_texts)
        return given_texts

    return decorate


def as_text(data: bytes) -> str:
    """Return the text of an example."""
    return data.decode("utf-8", "surrogatepass")


def refused(read: Callable[..., Any], *errors: type[Exception]) -> Any:
    """Return what *read* returns; None for one of these errors, which must say something."""
    try:
        return read()
    except errors as error:
        refusal = str(error)
    assert refusal, "a refusal says nothing"
    return None


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, dict) else {}
