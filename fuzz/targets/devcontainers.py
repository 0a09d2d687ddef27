"""devcontainer.json: JSON with comments, in which one value is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aml_train.cli.scaffold.devcontainer import image_of, updated_devcontainer
from aml_train.core.errors import InvalidError
from aml_train.core.jsonc import JsoncError, change_jsonc, parse_jsonc
from fuzz.target import Target, require

_IMAGE = "r.azurecr.io/a@sha256:" + "0a" * 32


def seeds() -> Sequence[str]:
    """Return devcontainer.json files."""
    return [
        '// ours\n{\n  /* the image */ "image": "old", // keep\n  "features": {"a": {"b": [1, 2,],},},\n}\n',
        '{"image": "x", "customizations": {"vscode": {"extensions": ["a"]}, "aml-train": {"commit": "c"}}}',
        '{"build": {"dockerfile": "Dockerfile"}, "n": -1.5e3, "t": true, "z": null, "u": "\\u00e4\\ud83d\\ude00"}',
        "{}",
        '\ufeff{"a": "// no comment /* */"}',
    ]


def check(text: str) -> None:
    """Parse the text; change a value of it."""
    try:
        before = parse_jsonc(text)
    except JsoncError as error:
        require(str(error), "a refusal says nothing")
        before = None
    else:
        require(
            parse_jsonc(text + "\n// end") == before or text.rstrip().endswith("//"), "a comment changes the value"
        )
    if isinstance(before, dict):
        after = parse_jsonc(change_jsonc(text, {("image",): "new"}))
        require(after == {**before, "image": "new"}, "more than one value was changed")
    readers: tuple[Callable[[], object], ...] = (
        lambda: image_of(text, "d.json"),
        lambda: updated_devcontainer(text, _IMAGE, {"commit": "c"}, "d.json"),
    )
    for read in readers:
        try:
            read()
        except InvalidError as error:
            require("d.json" in str(error), f"the refusal does not name the file: {error}")


TARGET = Target(
    kind="text",
    reads=("aml_train.core.jsonc", "aml_train.cli.scaffold.devcontainer"),
    seeds=seeds,
    check=check,
    words=(
        "//",
        "/*",
        "*/",
        '"image"',
        ",",
        ",}",
        ",]",
        "{",
        "}",
        "[",
        "]",
        ":",
        "\\u",
        "\\ud800",
        "1e5",
        "-0",
        "true",
        "\n",
    ),
)
