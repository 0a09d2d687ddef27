from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.config.sections.image import ImageConfig, SecretConfig
from aml_train.config.sections.image_packages import CondaConfig, PipConfig
from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.image.build.build import Build, check_secrets
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.context import ImageContext
from aml_train.image.dockerfile.in_build.solve import is_missed, left_behind
from aml_train.image.inputs import ImageInputs
from aml_train.image.solve import Solution, solve
from aml_train.image.spec import ImageSpec, plan_image
from tests.support.image_configs import BASE

CONFIG = ImageConfig(base=BASE.reference, azureml_defaults="1.62.0", repository="r", where="aml-train.yml:2")
PINS = {"/etc/pip/constraint.txt": "torch==2.9.0\nNumPy==2.3.5 # ours\n"}
#: What pip 26.3 wrote, and above the conflict what it went back from.
CONFLICT = """\
Collecting azureml-defaults
  Downloading azureml_defaults-1.62.0-py3-none-any.whl.metadata (2.0 kB)
INFO: pip is looking at multiple versions of azureml-dataset-runtime to determine which version is compatible
ERROR: Cannot install azureml-dataset-runtime because these package versions have conflicting dependencies.

The conflict is caused by:
    azureml-dataset-runtime 1.62.0 depends on numpy!=1.19.3 and <2.3.3; sys_platform == "linux"
    The user requested (constraint) numpy==2.3.5

Additionally, some packages in these conflicts have no matching distributions available for your environment:
    numpy
"""
INDEX = "2026-11-28T23:00:00 Could not fetch URL https://feed/simple/numpy/: 403 Client Error: Forbidden - skipping"


def said(code: int, output: str = "", versions: dict[str, str] | None = None, *missed: str) -> dict[str, Any]:
    return {"code": code, "output": output, "versions": versions or {}, "missed": list(missed)}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Solution]:
    """Solve, while a build leaves the given answer; an exception is one of the build."""

    def call(
        answer: Any = None, spec: ImageSpec | None = None, failure: Exception | None = None, **attempts: Any
    ) -> Solution:
        default: dict[str, Any] = {"python": "3.12", "pins": PINS, "together": None, "steps": [], "newest": None}
        content = json.dumps(answer if answer is not None else {**default, **attempts})

        def run(build: Build, *_arguments: Any, cli: BuildCli, **_options: Any) -> str:
            if failure is not None:
                raise failure
            check_secrets(build.spec.secrets, cli.environ, proposed=build.spec.is_proposed)
            return content

        monkeypatch.setattr("aml_train.image.solve.run_build", run)
        cli = BuildCli(path="docker", buildx=True, environ={"FEED": "hunter2hunter2"})
        return solve(
            spec or plan_image(CONFIG, BASE, None, "linux/amd64"), cli=lambda: cli, listener=lambda _event: None
        )

    return call


def test_a_conflict_names_both_sides_and_the_keys_that_help(ask: Callable[..., Solution]) -> None:
    with pytest.raises(ImageError) as caught:
        ask(steps=[said(1, CONFLICT)])
    assert caught.value.exit_code == 3
    assert caught.value.message.splitlines() == [
        "aml-train.yml:2: the packages for nvcr.io/nvidia/pytorch:21.02-py3 (Python 3.12) do not fit together:",
        '  azureml-dataset-runtime 1.62.0 depends on numpy!=1.19.3 and <2.3.3; sys_platform == "linux"',
        "  numpy==2.3.5 is a constraint of the base's /etc/pip/constraint.txt",
    ]
    assert "`azureml-mlflow:`" in str(caught.value.hint)
    assert "`image.constraints: torch-only`" in str(caught.value.hint)


def test_the_projects_own_constraint_is_named(ask: Callable[..., Solution]) -> None:
    inputs = ImageInputs(files={"constraints.txt": b"numpy==2.3.5\n"})
    with pytest.raises(ImageError, match=r"numpy==2\.3\.5 is a constraint of image\.pip\.constraints") as caught:
        ask(spec=plan_image(CONFIG, BASE, inputs, "linux/amd64"), pins={}, steps=[said(1, CONFLICT)])
    assert "`image.constraints" not in str(caught.value.hint)


@pytest.mark.parametrize(
    ("attempt", "remark"),
    [
        (said(1, CONFLICT, None, INDEX), "an index did not answer: "),
        (said(1, "ERROR: Failed to build 'pyarrow' when getting requirements to build wheel\n"), "Failed to build"),
        (said(2, "\nUsage: pip install [options]\n\nno such option: --dry-run\n"), "pip says: "),
        (said(1, "/usr/bin/python: No module named pip\n"), "No module named pip"),
        (
            said(1, "ERROR: No matching distribution found for ours==9\n"),
            "No matching distribution found for ours==9",
        ),
        (said(124, CONFLICT.partition("ERROR")[0]), "takes too long"),
        (said(1), "no reason is given"),
    ],
)
def test_whatever_is_no_conflict_refuses_nothing(
    ask: Callable[..., Solution], attempt: dict[str, Any], remark: str
) -> None:
    found = ask(steps=[attempt, attempt])
    assert found.versions == {}
    (text,) = found.remarks
    assert text.startswith("The packages were not resolved before the build: ")
    assert remark in text


@pytest.mark.parametrize(
    "answer", [[], {}, {"python": "3.12", "pins": {}, "steps": [{}], "together": None, "newest": None}]
)
def test_a_damaged_answer_refuses_nothing(ask: Callable[..., Solution], answer: Any) -> None:
    assert ask(answer).remarks[0].startswith("The packages were not resolved before the build: ")


def test_a_build_that_fails_refuses_nothing(ask: Callable[..., Solution]) -> None:
    found = ask(failure=ImageError("the registry does not answer"))
    assert found.remarks == ("The packages were not resolved before the build: the registry does not answer",)


def test_a_secret_that_may_not_be_read_is_not_read(ask: Callable[..., Solution]) -> None:
    pip = PipConfig(packages=("ours",), index_url="https://b:${feed}@feed/simple")
    config = replace(CONFIG, pip=pip, secrets={"feed": SecretConfig(env="FEED")})
    spec = plan_image(config, BASE, None, "linux/amd64")
    assert "/run/secrets/feed" in spec.solve
    assert "only proposed" in ask(spec=replace(spec, is_proposed=True)).remarks[0]
    with pytest.raises(ImageError) as caught:
        ask(spec=spec, steps=[said(1, CONFLICT.replace("numpy!=1.19.3", "hunter2hunter2"))])
    assert "hunter2" not in caught.value.message


def test_an_index_that_is_away_is_told_once(ask: Callable[..., Solution]) -> None:
    (text,) = ask(together=said(1, "", None, INDEX)).remarks
    assert "an index did not answer: " in text
    assert ask(together=said(0, "", {"a": "1"})) == Solution(versions={"a": "1"})


def test_packages_of_several_steps_that_do_not_fit_are_told_and_not_refused(ask: Callable[..., Solution]) -> None:
    found = ask(together=said(1, CONFLICT), steps=[said(0, "", {"a": "1"}), said(0, "", {"b": "2"})])
    assert found.versions == {"a": "1", "b": "2"}
    assert "numpy==2.3.5 is a constraint of the base's" in found.remarks[0]


def test_an_old_version_of_azureml_is_told_with_what_keeps_the_new_one_out(ask: Callable[..., Solution]) -> None:
    newest = {**said(1, CONFLICT), "request": "azureml-defaults==1.62.0"}
    found = ask(steps=[said(0, "", {"azureml-defaults": "1.0.45"})], newest=newest)
    assert found.versions == {"azureml-defaults": "1.0.45"}
    (text,) = found.remarks
    assert text.startswith("pip leaves azureml-defaults==1.62.0 for an older version:\n  azureml-dataset-runtime")


def test_the_version_that_pip_went_back_from() -> None:
    back = f"{CONFLICT}  Using cached azureml_defaults-1.61.0-py3-none-any.whl.metadata (2.0 kB)\n"
    assert left_behind(["--", "azureml-defaults"], back) == "azureml-defaults==1.62.0"
    assert left_behind(["--", "azureml-defaults"], CONFLICT) == ""
    assert left_behind(["--", "azureml-defaults==1.62.0"], back) == ""


def test_a_package_that_an_index_lacks_is_not_missed() -> None:
    assert is_missed(INDEX)
    assert is_missed(INDEX.replace("403 Client Error: Forbidden", "connection error: [Errno 111] Connection refused"))
    assert not is_missed(INDEX.replace("403 Client Error: Forbidden", "404 Client Error: Not Found"))


def test_the_base_is_asked_as_the_build_asks_it() -> None:
    pip = PipConfig(requirements=Path("requirements.txt"), packages=("six",))
    files = {
        "requirements.txt": b"torch==2.9.0\n",
        "requirements-large.txt": b"torch==2.9.0\n",
        "constraints.txt": b"",
    }
    inputs = ImageInputs(files=files, requirements="requirements.txt")
    text = plan_image(replace(CONFIG, pip=pip), BASE, inputs, "linux/amd64").solve
    words = text.replace("\\\n", " ").split()
    start = words.index("/aml-train-solved.json")
    assert words[start + 1 : words.index("FROM", start)] == [
        "--constraint=/tmp/aml-train/constraints.txt",
        *("--", "azureml-defaults==1.62.0", "--", "--requirement=/tmp/aml-train/requirements.txt", "--", "six"),
    ]
    assert "requirements-large" not in text
    assert "--mount=type=bind,source=requirements.txt,target=/tmp/aml-train/requirements.txt" in words


@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, azureml_defaults=None),
        replace(CONFIG, conda=CondaConfig(file=Path("environment.yml"))),
        replace(CONFIG, apt=("python3.12",)),
    ],
    ids=["nothing to install", "Python of conda", "Python of apt"],
)
def test_a_base_whose_pip_will_not_run_is_not_asked(config: ImageConfig, ask: Callable[..., Solution]) -> None:
    spec = plan_image(config, BASE, ImageInputs(micromamba="m"), "linux/amd64")
    assert ask(spec=spec, failure=AssertionError("built")) == Solution()


def test_a_conflict_ends_the_build_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_args: Any, **_options: Any) -> Solution:
        raise ImageError("they do not fit")

    def build(*_args: Any, **_options: Any) -> str:
        raise AssertionError("it was built")

    monkeypatch.setattr("aml_train.image.builders.engine.solve", conflict)
    monkeypatch.setattr("aml_train.image.builders.engine.build_image", build)
    ctx = ImageContext(
        spec=plan_image(CONFIG, BASE, None, "linux/amd64"),
        tests=None,
        engine=None,
        location=cast("Any", SimpleNamespace(push_name="r", logins=lambda _host: {})),
        listener=lambda _event: None,
        registry=cast("Any", SimpleNamespace(head_manifest=lambda _repository, _tag: None)),
    )
    builder = EngineBuilder(lambda: BuildCli(path="docker", buildx=True, environ={}))
    with pytest.raises(ImageError, match="they do not fit"):
        builder.build(ctx, cast("Any", None), 0.0, force=False)
