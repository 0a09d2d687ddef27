from __future__ import annotations

import pytest

from aml_train.core.release_tags import DEFAULT_TAGS, release_tags, template_fault

COMMIT, ADDRESS = "0123456789abcdef0123456789abcdef01234567", "f" * 64


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        (DEFAULT_TAGS, (f"git-{COMMIT}", "branch-feature-x")),
        (["v1-{short-commit}", "v1-{short-commit}", "latest"], ("v1-0123456", "latest")),
        (["a{address}"], ("a" + "f" * 40,)),
        (["b-{branch}-{commit}"], (f"b-feature-x-{COMMIT}",)),
        ([], ()),
    ],
)
def test_tags(templates: list[str], expected: tuple[str, ...]) -> None:
    assert release_tags(templates, commit=COMMIT, branch="feature/x", address=ADDRESS) == expected


@pytest.mark.parametrize("branch", [f"git-{COMMIT}", "branch-main", "addr-x", "cache", "sha256-x"])
def test_the_name_of_a_branch_makes_no_reserved_tag(branch: str) -> None:
    assert release_tags(["{branch}", "v1"], commit=COMMIT, branch=branch, address=ADDRESS) == ("v1",)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("v1", None),
        ("{branch}", None),
        ("v{short-commit}.x", None),
        ("v{", "braces do not match"),
        ("v{commit!r}", "braces do not match"),
        ("v{}", "names `{}`"),
        ("{sha}", "names `{sha}`; known are `{commit}`, `{short-commit}`, `{branch}`, `{address}`"),
        ("a b", "at most 128 letters"),
        ("-a", "does not begin with"),
        ("", "at most 128 letters"),
        ("a" * 129, "at most 128 letters"),
        ("addr-x", "are aml-train's own"),
        ("dig-{commit}", "are aml-train's own"),
        ("git-{short-commit}", None),
        ("git-{branch}", "are aml-train's own"),
        (f"git-{COMMIT}", "are aml-train's own"),
        ("branch-main", "are aml-train's own"),
        ("branch-{branch}-x", "are aml-train's own"),
        ("sha256-x", "are aml-train's own"),
    ],
)
def test_templates(template: str, expected: str | None) -> None:
    found = template_fault(template)
    assert (found is None) if expected is None else (found is not None and expected in found)
