"""Comments of pull requests: commands, and markers of comments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aml_train_action.github.step import read_step
from aml_train_action.pulls.grammar import NAMES, Command, Refusal, parse
from aml_train_action.pulls.marker import Marker, read_marker
from aml_train_action.pulls.markup import lines, literal, message, own_link, studio
from fuzz.target import Target, require

COMMIT = "0a" * 20
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,29}")


def seeds() -> Sequence[str]:
    """Return commands, near misses, ordinary comments, and a marker."""
    return [
        *(f"/{name}" for name in NAMES),
        *(f"/train {COMMIT}", f"/compare {COMMIT}\n", "/promote 12", "/promote v1.2-rc"),
        *(
            "/trian",
            "/train now",
            "\uff0ftrain",
            "/tr\u0430in",
            "Please /train this",
            "/etc/passwd is a path",
            "/train\n\n/promote",
        ),
        f"{Marker(key='0' * 32, run=12, attempt=1, commit=COMMIT)}\n## Report\n",
        "https://ml.azure.com/runs/job-1?wsid=/subscriptions/x",
    ]


def check(text: str) -> None:
    """Read a comment."""
    found = parse(text)
    match found:
        case Command():
            body = text.removesuffix("\n").removesuffix("\r")
            require(body.isascii() and body.startswith(f"/{found.name}"), "something else was taken for a command")
            require(
                found.commit == "" or re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", found.commit),
                "that is no commit",
            )
            require(found.version == "" or _VERSION.fullmatch(found.version), "that is no version")
            rendered = f"/{found.name} {found.commit or found.version}".rstrip()
            require(parse(rendered) == found, "the command is another one if it is written again")
            require(rendered == body, f"more than the command was written: {body!r}")
        case Refusal():
            require(found.why.isascii(), "a refusal has foreign text")
    marker = read_marker(text)
    if marker is not None:
        require(read_marker(str(marker)) == marker, "the marker is another one if it is written again")
    for shown in (literal(text), message(text), lines(text, most=500)):
        require("<script" not in shown.lower() and "<!--" not in shown, f"markup gets through: {shown[:200]!r}")
    shown = own_link("x", text) + studio(text)
    require(shown.count('"') <= 4, "an address ends its attribute")
    read_step({"GITHUB_REF": text, "GITHUB_RUN_ID": text, "GITHUB_REPOSITORY": text, "GITHUB_EVENT_NAME": text})
    read_step({"GITHUB_REF": text, "GITHUB_RUN_ID": "12", "GITHUB_EVENT_NAME": "push"})


TARGET = Target(
    kind="text",
    reads=(
        "aml_train_action.pulls.grammar",
        "aml_train_action.pulls.marker",
        "aml_train_action.pulls.markup",
        "aml_train_action.github.step",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(f"/{name}" for name in NAMES),
        COMMIT,
        "<!--",
        "-->",
        "<script>",
        "`",
        "\n",
        "\u2028",
        "\u0430",
        "|",
        "@team",
        "refs/pull/7/merge",
    ),
)
