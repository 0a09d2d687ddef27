"""Links between the pages of documentation lead to files and headings that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aml_train.azure.clouds import cloud_named

ROOT = Path(__file__).parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")))
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def local_links(page: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    return (link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in local_links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


def test_a_decision_is_listed_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    decisions = sorted(page.name for page in (ROOT / "docs/decisions").glob("*.md"))
    assert re.findall(r"^\| \[\d+\]\(decisions/(.+?)\)", text, re.MULTILINE) == decisions


def test_the_custom_role_is_a_role() -> None:
    text = (ROOT / "docs/permissions.md").read_text(encoding="utf-8")
    (role,) = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    assert role["IsCustom"]
    assert all(one.startswith("Microsoft.MachineLearningServices/") for one in role["Actions"] + role["NotActions"])
    assert not any(one.endswith(("/*/delete", "workspaces/write")) for one in role["Actions"])


@pytest.mark.parametrize("name", ["AzureCloud", "AzureUSGovernment", "AzureChinaCloud"])
def test_the_network_page_has_every_cloud(name: str) -> None:
    text = (ROOT / "docs/network.md").read_text(encoding="utf-8")
    cloud = cloud_named(name)
    for word in (name, cloud.authority, cloud.arm.removeprefix("https://"), cloud.federated_audience):
        assert f"`{word}`" in text or f" {word} " in text


def test_each_page_that_shows_a_subject_shows_both_forms() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if re.search(r"`repo:OWNER/REPO\w*:", text):
            assert re.search(r"`repo:OWNER@\w+/REPO\w*@\w+:", text), page
