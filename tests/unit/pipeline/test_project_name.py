"""The project's name for image and job: the same everywhere, one per repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.jobs.spec import stem_of
from aml_train.pipeline.project_name import ProjectName, name_project, repository_of

MOUNT = Path("/github/workspace")
GITHUB = {"GITHUB_WORKSPACE": str(MOUNT), "GITHUB_REPOSITORY": "Octo/Digits"}


def of(*parts: str) -> ProjectName:
    return ProjectName(parts=parts, source="the git remote")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/owner/name", "github.com/owner/name"),
        ("https://www.github.com/owner/name/", "github.com/owner/name"),
        ("https://user:p@ss:w@rd@github.com/owner/name.git", "github.com/owner/name"),
        ("https://user:p?a#b@github.com/owner/name.git", "github.com/owner/name"),
        ("https://github.example.com:8443/owner/name", "github.example.com/owner/name"),
        ("ssh://git@ssh.github.com:443/owner/name.git", "github.com/owner/name"),
        ("ssh://git@[::1]:22/owner/name.git", "[::1]/owner/name"),
        ("work-github:owner/name.git", "work-github/owner/name"),
        ("https://gitlab.com/group/sub/name.git", "gitlab.com/group/sub/name"),
        ("https://dev.azure.com/Org/My%20Project/_git/Repo", "dev.azure.com/Org/My%20Project/_git/Repo"),
        ("https://Org@dev.azure.com/Org/My%20Project/_git/Repo", "dev.azure.com/Org/My%20Project/_git/Repo"),
        ("https://dev.azure.com/Org/_git/Repo", "dev.azure.com/Org/Repo/_git/Repo"),
        ("git@ssh.dev.azure.com:v3/Org/My%20Project/Repo", "dev.azure.com/Org/My%20Project/_git/Repo"),
        ("https://org.visualstudio.com/DefaultCollection/Project/_git/Repo", "dev.azure.com/org/Project/_git/Repo"),
        ("https://org.visualstudio.com/_git/Repo", "dev.azure.com/org/Repo/_git/Repo"),
        ("org@vs-ssh.visualstudio.com:v3/org/Project/Repo", "dev.azure.com/org/Project/_git/Repo"),
        # A password that is not where one belongs must not become a part of a name.
        ("https://user:12/hidden@github.com/owner/name", ""),
        ("user:hidden@github.com:owner/name", ""),
        ("https://user:hid/den@github.com/owner/name", ""),
        ("https://github.com", ""),
        ("https:///owner/name", ""),
        ("/srv/git/name.git", ""),
        ("C:\\work\\name", ""),
    ],
)
def test_a_repository_has_one_name_however_it_is_reached(url: str, name: str) -> None:
    assert repository_of(url) == name


@pytest.mark.parametrize(
    ("remote", "folder", "environ", "name", "source"),
    [
        ("git@github.com:Octo/Digits.git", "", {}, "Octo/Digits", "the git remote"),
        ("https://github.com/octo/digits", "", GITHUB, "octo/digits", "the git remote"),
        ("https://github.com/fork/digits", "", GITHUB, "fork/digits", "the git remote"),
        ("https://github.com/octo/digits", "models/small/", GITHUB, "octo/digits/models/small", "the git remote"),
        ("", "models/small/", GITHUB, "Octo/Digits/models/small", "GITHUB_REPOSITORY"),
        ("/srv/git/digits", "", GITHUB, "Octo/Digits", "GITHUB_REPOSITORY"),
        ("", None, GITHUB, "Octo/Digits", "GITHUB_REPOSITORY"),
        ("", None, {}, "workspace", "the project folder"),
        ("", "", {}, "workspace", "the project folder"),
        ("/srv/git/digits", "", {}, "workspace", "the project folder"),
        ("", None, {**GITHUB, "GITHUB_WORKSPACE": "/elsewhere"}, "workspace", "the project folder"),
        ("", None, {**GITHUB, "GITHUB_WORKSPACE": ""}, "workspace", "the project folder"),
        ("https://dev.azure.com/Org/My%20Project/_git/Repo", "", {}, "Org/My Project/Repo", "the git remote"),
        ("https://github.com/octo/digits", "100%25/a b/", {}, "octo/digits/100%25/a b", "the git remote"),
    ],
)
def test_the_name_of_a_project(
    remote: str, folder: str | None, environ: dict[str, str], name: str, source: str
) -> None:
    found = name_project(MOUNT, remote=remote, folder=folder, environ=environ)
    assert (str(found), found.source) == (name, source)


def test_the_action_without_a_remote_and_the_command_line_say_the_same() -> None:
    clone = name_project(Path("/home/me/x"), remote="git@github.com:octo/digits.git", folder="a/", environ={})
    mount = name_project(MOUNT / "a", remote="", folder=None, environ=GITHUB)
    assert (
        (clone.repository, stem_of(clone.stem))
        == (mount.repository, stem_of(mount.stem))
        == ("octo/digits/a", "octo-digits-a")
    )


def test_long_names_are_cut_and_differ() -> None:
    one, other = of("octo", "x" * 100, "y" * 100, "a"), of("octo", "x" * 100, "y" * 100, "b")
    assert one.repository != other.repository
    assert one.stem != other.stem
    assert one.stem.startswith("octo-xxx")
