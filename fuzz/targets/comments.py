"""Comments of pull requests: markers, and markup."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train_action.github.step import read_step
from aml_train_action.pulls.marker import Marker, read_marker
from aml_train_action.pulls.markup import lines, literal, message, own_link, studio
from fuzz.target import Target, require

COMMIT = "0a" * 20


def seeds() -> Sequence[str]:
    """Return ordinary comments, and a marker."""
    return [
        "/etc/passwd is a path",
        "> quoted <script> & more",
        f"{Marker(key='0' * 32, run=12, attempt=1, commit=COMMIT)}\n## Report\n",
        "https://ml.azure.com/runs/job-1?wsid=/subscriptions/x",
    ]


def check(text: str) -> None:
    """Read a comment."""
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
        "aml_train_action.pulls.marker",
        "aml_train_action.pulls.markup",
        "aml_train_action.github.step",
    ),
    seeds=seeds,
    check=check,
    words=(
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
