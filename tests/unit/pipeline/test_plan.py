from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.core.references import ImageRef
from aml_train.core.trust import PROTECTED, Trust, proposal
from aml_train.image.inputs import BaseImage
from aml_train.image.spec import Release
from aml_train.jobs.spec import TargetNames, fingerprint
from aml_train.pipeline.plan import Plan, make_plan
from aml_train.pipeline.plan_values import render_plan
from aml_train.pipeline.resolve import Commit, Surroundings, read_trust, resolve
from tests.support.base_lookup import Bases
from tests.unit.pipeline.test_run import TESTED

DIGEST = "sha256:" + "b" * 64
NAMES = TargetNames(
    target="local",
    description="the local AzureML",
    scope="local",
    registry_for_jobs="r.azurecr.io",
    registry_for_engine="localhost:1",
    compute="local-cluster",
)


def plan_of(
    directory: Path, commit: Commit | None = None, names: TargetNames = NAMES, trust: Trust = PROTECTED
) -> Plan:
    config = load_config(None, directory=directory)

    def resolve_base(reference: ImageRef, platform: str) -> BaseImage:
        return BaseImage(reference=reference, digest=DIGEST)

    resolved = resolve(
        config, Surroundings(platform="linux/amd64", lookup=Bases(resolve_base), commit=lambda _: commit)
    )
    return make_plan(config, replace(resolved, trust=trust), names)


def project(directory: Path, config: str) -> None:
    (directory / "job.yml").write_text(
        "name: mine\ncommand: python train.py\ncompute: azureml:gpu\nenvironment: azureml:sklearn:1\n"
        "environment_variables: {DEBUG: ''}\n"
    )
    (directory / "test_it.py").write_text("def test_it(): pass\n")
    (directory / "aml-train.yml").write_text(config)


def test_our_image_replaces_the_environment_and_the_plan_says_so(tmp_path: Path) -> None:
    project(tmp_path, "job: job.yml\nimage: {base: 'python:3.11', apt: [git]}\ntests: {command: pytest}\n")
    plan = plan_of(tmp_path)
    assert plan.image is not None
    assert plan.tests is not None
    assert plan.job.document["compute"] == "azureml:local-cluster"
    assert any("replaces the job's own environment azureml:sklearn:1" in notice for notice in plan.notices)
    assert any("local-cluster instead of azureml:gpu" in notice for notice in plan.notices)
    text = render_plan(plan)
    for part in (
        f"FROM python@{DIGEST}",
        "git",
        f"r.azurecr.io/{plan.image.repository}",
        "command: pytest",
        "DEBUG: ''",
    ):
        assert part in text
    assert "azureml:sklearn:1" not in text.split("\njob:\n")[1].split("\ngate: ")[0]


def test_the_plan_says_which_spot_nodes_count_as_dedicated(tmp_path: Path) -> None:
    project(
        tmp_path,
        "job: job.yml\ntarget: azure\ntargets: {azure: {compute: {name: gpu, size: Standard_A, tier: spot}}}\n"
        "cost: {max-cost: 5, prices: {Standard_A: 2}}\n",
    )
    assert any(
        "Spot nodes of Standard_A count at the price of dedicated ones, 2 USD an hour" in one
        for one in plan_of(tmp_path).notices
    )


def test_the_commit_is_a_tag_and_never_in_the_image(tmp_path: Path) -> None:
    project(tmp_path, "job: job.yml\nimage: {base: 'python:3.11'}\n")
    one = plan_of(tmp_path, Commit(sha="1" * 40, branch="main", dirty=False))
    two = plan_of(tmp_path, Commit(sha="2" * 40, branch="main", dirty=True))
    assert one.image is not None
    assert two.image is not None
    assert one.image.address == two.image.address
    assert one.job.tags["aml-train.commit"] == "1" * 40
    assert two.job.tags["aml-train.commit"] == "2" * 40 + "-dirty"


def test_release_tags(tmp_path: Path) -> None:
    project(tmp_path, "job: job.yml\nimage: {base: 'python:3.11'}\n")

    def release(commit: Commit | None) -> Release:
        image = plan_of(tmp_path, commit).image
        assert image is not None
        return image.release

    clean = Commit(sha="1" * 40, branch="feature/x", dirty=False)
    assert release(clean) == Release(tags=("git-" + "1" * 40, "branch-feature-x"), lock=True)
    assert release(replace(clean, dirty=True)).tags == ("branch-feature-x",)
    assert release(None).tags == ()
    project(
        tmp_path, "job: job.yml\nimage: {base: 'python:3.11', tags: ['v1-{short-commit}', latest], lock: false}\n"
    )
    assert release(clean) == Release(tags=("git-" + "1" * 40, "v1-1111111", "latest"), lock=False)


@pytest.mark.parametrize(
    ("trust", "tags", "told"),
    [
        (proposal(pull="7"), ("branch-pull-7",), "this run is a proposal, pull-7, and its tag is branch-pull-7"),
        (proposal(branch="main"), (), "this run is a proposal, branch-main, and it gets no tag"),
        (proposal(branch="pull-7"), (), "this run is a proposal, branch-pull-7, and it gets no tag"),
    ],
)
def test_a_proposal_gets_the_tag_of_its_pull_request_alone(
    trust: Trust, tags: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    project(
        tmp_path,
        "job: job.yml\nimage: {base: 'python:3.11', tags: ['git-{commit}', '{branch}', latest]}\ntests: {command: pytest}\n",
    )
    plan = plan_of(tmp_path, Commit(sha="1" * 40, branch="main", dirty=False), trust=trust)
    assert plan.image is not None
    assert plan.tests is not None
    assert (plan.image.release.tags, plan.tests.group) == (tags, trust.group)
    assert f"The image does not get `{{branch}}`, `latest` of `image.tags`: {told}." in plan.notices
    assert plan.image.repository.endswith("-proposals")
    assert f"\ntrust: a proposal, {trust.group}\n" in render_plan(plan)


@pytest.mark.parametrize(
    ("branch", "named", "default", "proposed", "group"),
    [
        ("main", None, "main", False, None),
        ("trunk", None, "trunk", False, None),
        ("main", None, "trunk", False, "branch-main"),
        ("master", None, None, False, None),
        ("main", None, "main", True, "branch-main"),
        ("feature", None, "main", False, "branch-feature"),
        ("main", "main", "main", False, None),
        ("pull/7", "pull/7", "main", False, "pull-7"),
        # Anybody may call a branch so; only the environment names a pull request.
        ("pull/7", None, "main", False, "branch-pull/7"),
        (None, None, "main", False, "commit-" + "1" * 40),
    ],
)
def test_a_checkout_is_trusted_by_its_branch(
    branch: str | None,
    named: str | None,
    default: str | None,
    proposed: bool,
    group: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aml_train.core.git.default_branch", lambda _directory: default)
    commit = Commit(sha="1" * 40, branch=branch, dirty=False)
    assert read_trust(Path(), commit, named=named, proposed=proposed).group == group
    assert read_trust(Path(), None, named=named, proposed=proposed).group == "local"


def test_a_bare_job_keeps_its_environment(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text("command: python train.py\nenvironment: azureml:sklearn:1\n")
    plan = plan_of(tmp_path)
    assert (plan.image, plan.tests, plan.config.model, plan.config.gate) == (None, None, None, ())
    text = render_plan(plan)
    assert "given by the job, not tested: azureml:sklearn:1" in text
    assert "none: the job only has to complete" in text


def test_the_checks_know_what_the_configuration_allows_and_whether_there_are_several_nodes(tmp_path: Path) -> None:
    config = "job: job.yml\nimage: {base: 'python:3.11', checks: {ignore: [user, mlx5]}}\n"
    project(tmp_path, config)
    image = plan_of(tmp_path).image
    assert image is not None
    assert (image.checks.ignore, image.checks.several_nodes) == (("user", "mlx5"), False)
    assert image.checks.where.endswith("aml-train.yml:2")

    job = tmp_path / "job.yml"
    job.write_text(job.read_text() + "resources: {instance_count: 2}\n")
    several = plan_of(tmp_path).image
    assert several is not None
    assert several.checks.several_nodes
    assert not several.checks.mpi
    assert several.address == image.address

    job.write_text(job.read_text() + "distribution: {type: mpi}\n")
    mpi = plan_of(tmp_path).image
    assert mpi is not None
    assert mpi.checks.mpi


@pytest.mark.parametrize("path", ["rows.csv", "file:rows.csv", "file:{folder}/rows.csv", "file://{folder}/rows.csv"])
def test_other_local_data_are_another_job(path: str, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(
        "command: train ${{inputs.rows}}\nenvironment: azureml:sklearn:1\n"
        f"inputs: {{rows: {{type: uri_file, path: '{path.format(folder=tmp_path)}'}}}}\n"
    )
    (tmp_path / "rows.csv").write_text("1")
    before = plan_of(tmp_path).job
    (tmp_path / "rows.csv").write_text("2")
    after = plan_of(tmp_path).job
    assert before.document == after.document
    assert fingerprint(before, {"": TESTED}) != fingerprint(after, {"": TESTED})
