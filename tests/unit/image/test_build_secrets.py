"""Which files of the runner a build may read as secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aml_train.config.sections.image import SecretConfig
from aml_train.core.errors import ImageError, InvalidError
from aml_train.image import build_secrets as build_secrets_module
from aml_train.image.build_secrets import SecretAccess, build_secrets, read_secret_file, secret_access


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one secret in it, and another secret beside it."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/feed").write_text("inside\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/feed").write_text("outside\n")
    return tmp_path / "workspace"


def read(path: Path, access: SecretAccess) -> str:
    return read_secret_file(path, access, name="x", where="aml-train.yml:4")


def test_a_file_of_the_workspace_is_read(workspace: Path) -> None:
    assert read(workspace / "feed", SecretAccess(workspace=workspace)) == "inside\n"


def test_a_file_outside_is_read_only_where_the_workflow_allows_it(workspace: Path, tmp_path: Path) -> None:
    message = (
        r"^aml-train\.yml:4: the secret `x` is not read from .*outside/feed: .* the workflow decides.*`secret-path`"
    )
    with pytest.raises(InvalidError, match=message):
        read(tmp_path / "outside/feed", SecretAccess(workspace=workspace))
    for allowed in (tmp_path / "outside", tmp_path / "outside/feed"):
        access = SecretAccess(workspace=workspace, allowed=(allowed,))
        assert read(tmp_path / "outside/feed", access) == "outside\n"


def test_a_link_out_of_the_workspace_is_refused(workspace: Path, tmp_path: Path) -> None:
    (workspace / "file").symlink_to(tmp_path / "outside/feed")
    (workspace / "folder").symlink_to(tmp_path / "outside")
    for path in ("file", "folder/feed"):
        with pytest.raises(InvalidError, match=r"which leads to .*/outside/feed: "):
            read(workspace / path, SecretAccess(workspace=workspace))


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/1/environ", "/dev/stdin", "/sys/kernel/notes"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_the_kernel_shows_is_refused_whatever_is_allowed(path: str, linked: bool, workspace: Path) -> None:
    file = Path(path)
    if not os.path.lexists(path) or not file.exists():
        pytest.skip(f"there is no {path} here")
    if linked:
        file = workspace / "link"
        file.symlink_to(path)
    with pytest.raises(InvalidError, match=r"the secret `x` (is not read from|leads to)"):
        read(file, SecretAccess(workspace=workspace, allowed=(Path("/"), Path("/proc"))))


def test_the_runners_folder_needs_an_explicit_path(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = workspace.parent / "github"
    (runner / "workspace").mkdir(parents=True)
    (runner / "runner_temp").mkdir()
    for name in ("workspace/feed", "event.json", "runner_temp/feed"):
        (runner / name).write_text(name)
    monkeypatch.setattr(build_secrets_module, "_RUNNER", runner)
    here = runner / "workspace"
    assert read(here / "feed", SecretAccess(workspace=here)) == "workspace/feed"
    for allowed in (Path("/"), runner):
        with pytest.raises(InvalidError, match="the workflow decides"):
            read(runner / "event.json", SecretAccess(workspace=here, allowed=(allowed,)))
    access = SecretAccess(workspace=here, allowed=(runner / "runner_temp",))
    assert read(runner / "runner_temp/feed", access) == "runner_temp/feed"


def test_the_token_of_the_checkout_is_refused(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("token")
    with pytest.raises(InvalidError, match=r"`\.git` may hold the token of the checkout"):
        read(workspace / ".git/config", SecretAccess(workspace=workspace))


def test_a_link_that_takes_the_files_place_after_it_was_judged_is_not_followed(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = build_secrets_module._judge

    def swap(*arguments: object) -> None:
        judge(*arguments)  # type: ignore[arg-type]
        (workspace / "feed").unlink()
        (workspace / "feed").symlink_to(tmp_path / "outside/feed")

    monkeypatch.setattr(build_secrets_module, "_judge", swap)
    with pytest.raises(ImageError, match="cannot be read"):
        read(workspace / "feed", SecretAccess(workspace=workspace))


def test_a_folder_that_becomes_a_link_after_it_was_judged_is_not_followed(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/feed").write_text("inside")
    judge = build_secrets_module._judge

    def swap(*arguments: object) -> None:
        judge(*arguments)  # type: ignore[arg-type]
        (workspace / "d").rename(workspace / "moved")
        (workspace / "d").symlink_to(tmp_path / "outside")

    monkeypatch.setattr(build_secrets_module, "_judge", swap)
    with pytest.raises(ImageError, match="cannot be read"):
        read(workspace / "d/feed", SecretAccess(workspace=workspace))


def test_what_the_environment_allows(tmp_path: Path) -> None:
    project = tmp_path / "repository/folder"
    project.mkdir(parents=True)
    assert secret_access({}, project) == SecretAccess(workspace=project)
    (tmp_path / "repository/.git").write_text("gitdir: elsewhere")
    assert secret_access({}, project) == SecretAccess(workspace=tmp_path / "repository")
    environment = {"AML_TRAIN_WORKSPACE": "/w", "AML_TRAIN_SECRET_PATH": "/run/secrets::/a/../b"}
    assert secret_access(environment, project) == SecretAccess(
        workspace=Path("/w"), allowed=(Path("/run/secrets"), Path("/b"))
    )


@pytest.mark.parametrize("config", [SecretConfig(env="AZURE_CLIENT_SECRET"), SecretConfig(file=Path("/x"))])
def test_a_proposed_commit_names_no_secret(config: SecretConfig) -> None:
    access = SecretAccess(workspace=Path("/"), proposed=True)
    with pytest.raises(
        InvalidError, match=r"secret `x` is not read .* only proposed: .*`set: image\.secrets\.x\.(env|file)="
    ):
        build_secrets({"x": config}, {"AZURE_CLIENT_SECRET": "value"}, access)


def test_the_workflow_names_secrets_for_a_proposed_commit(workspace: Path) -> None:
    access = SecretAccess(workspace=workspace, proposed=True)
    named = {
        "a": SecretConfig(env="A", by_option=True),
        "b": SecretConfig(file=workspace / "feed", by_option=True),
    }
    assert build_secrets(named, {"A": "value"}, access).values == ("value", "inside\n")


def test_the_build_reads_what_was_checked_and_not_the_path_again(workspace: Path) -> None:
    """The command gets a variable, whatever becomes of the file meanwhile."""
    secrets = {"key": SecretConfig(file=workspace / "feed"), "token": SecretConfig(env="TOKEN")}
    found = build_secrets(secrets, {"TOKEN": "abcd"}, SecretAccess(workspace=workspace))
    assert found.options == ("id=key,env=AML_TRAIN_BUILD_SECRET_0", "id=token,env=TOKEN")
    assert dict(found.variables) == {"AML_TRAIN_BUILD_SECRET_0": "inside\n"}
