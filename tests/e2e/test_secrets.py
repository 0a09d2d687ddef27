"""Planted secrets, each in a place and a disguise of its own: none is in what the action leaves anywhere.

GitHub gives the runner's own masks from the ``add-mask`` commands, which are therefore not looked at; everything else is.
"""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from tests.e2e.conftest import Local, edit
from tests.e2e.hosted_runner import HostedRunner, Step
from tests.e2e.test_endings import quick
from tests.integration.conftest import BASE
from tests.unit.action.runner_model import Runner


def word() -> str:
    """Return a secret that can stand in a name of any kind."""
    return f"s{secrets.token_hex(11)}"


def sign(value: str) -> str:
    """Return *value* as the signature of an address."""
    return f"https://store.blob.core.windows.net/c?sv=2025-11-05&sp=r&sig={quote(value, safe='')}"


def as_base64(value: str) -> str:
    return base64.b64encode(f"user:{value}".encode()).decode()


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One secret.

    Attributes:
        name: variable, input or place.
        value: what GitHub or the user writes there.
        parts: what nobody may see; *value* by default.
        said: what the job, the tests or the build print; *value* by default.
    """

    name: str
    value: str
    parts: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        return self.parts or (self.value,)

    @property
    def printed(self) -> tuple[str, ...]:
        return self.said or (self.value,)


def plain(name: str, disguise: Callable[[str], str] = str, value: str = "") -> Planted:
    """Return a secret that is one word, and printed in a disguise."""
    value = value or word()
    return Planted(name=name, value=value, said=(disguise(value),))


def key_file() -> tuple[str, ...]:
    return tuple(base64.b64encode(secrets.token_bytes(45)).decode() for _ in range(3))


def environment_secrets() -> list[Planted]:
    """Return what GitHub hands over as variables, each with what a program prints of it."""
    lines, fields, signature, account = key_file(), (word(), word()), f"{word()}+/x=", f"{word()}/+y=="
    pem = "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))
    document = json.dumps(
        {"clientSecret": fields[0], "nested": [{"password": fields[1]}], "type": "service"}, indent=2
    )
    odd = f"{word()}/+&=%: ,{word()}"
    return [
        plain("API_TOKEN"),
        plain("DB_PASSWORD", as_base64),
        Planted(name="DEPLOY_KEY", value=pem, parts=lines, said=tuple(pem.splitlines())),
        Planted(name="SERVICE_CREDENTIALS", value=document, parts=fields, said=fields),
        Planted(
            name="ODD_SECRET", value=odd, parts=(odd,), said=(odd, quote(odd, safe=""), quote(odd), json.dumps(odd))
        ),
        Planted(name="STORAGE_SAS", value=sign(signature), parts=(signature,), said=(sign(signature), signature)),
        Planted(
            name="STORAGE_CONNECTION_STRING",
            value=f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={account};EndpointSuffix=x",
            parts=(account,),
            said=(account, f"AccountKey={account}"),
        ),
        plain("HEX_SECRET", lambda value: value.encode().hex()),
        plain("REPR_PASSPHRASE", lambda value: repr({"password": value})),
        plain("COMMAND_TOKEN", lambda value: f"::set-output name=digest::{value}"),
        plain("ANSI_TOKEN", lambda value: f"\x1b[31m{value}\x1b[0m"),
        plain("MODEL_REGISTRY_KEY"),
        plain("METRIC_SECRET"),
        plain("BUILD_TOKEN"),
    ]


@dataclass
class Garden:
    """All that is planted."""

    variables: list[Planted] = field(default_factory=environment_secrets)
    #: In an input; in the job's file; in the tests' configuration; in inputs that sign in.
    by_set: Planted = field(default_factory=lambda: plain("HF_TOKEN"))
    by_job: Planted = field(default_factory=lambda: plain("WANDB_API_KEY", as_base64))
    by_tests: Planted = field(default_factory=lambda: plain("SERVICE_PASSWORD"))
    creds: Planted = field(default_factory=lambda: plain("creds"))
    #: In files that must never leave the machine.
    dotenv: Planted = field(default_factory=lambda: plain(".env"))
    git: Planted = field(default_factory=lambda: plain(".git/config"))
    ssh: Planted = field(default_factory=lambda: plain("id_rsa"))
    docker: Planted = field(default_factory=lambda: plain(".docker/config.json"))

    @property
    def all(self) -> list[Planted]:
        given = (self.by_set, self.by_job, self.by_tests, self.creds)
        return [*self.variables, *given, *self.files]

    @property
    def files(self) -> list[Planted]:
        return [self.dotenv, self.git, self.ssh, self.docker]

    def __getitem__(self, name: str) -> str:
        (found,) = (one.value for one in self.all if one.name == name)
        return found

    def printed(self) -> str:
        """Return what a program that tells everything prints."""
        told = [*self.variables, self.by_set, self.by_job, self.by_tests]
        return "\n".join(text for one in told for text in one.printed)


def disguises(value: str) -> Iterator[str]:
    """Yield *value* and the ways in which it could be written, by this test's own reckoning."""
    yield value
    yield value.encode().hex()
    yield quote(value, safe="")
    yield json.dumps(value)[1:-1]
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + value.encode()).decode().rstrip("=")
        yield encoded[4 if offset else 0 : -1]


def found_in(text: str, planted: list[Planted]) -> list[str]:
    """Return the names of the secrets that *text* has, in whatever disguise."""
    return [
        f"{one.name}: …{text[max(0, text.index(form) - 60) : text.index(form)]}"
        for one in planted
        for part in one.hidden
        for form in disguises(part)
        if form in text
    ]


@pytest.fixture
def garden() -> Garden:
    return Garden()


@pytest.fixture
def step_runner(runner: HostedRunner, garden: Garden) -> HostedRunner:
    runner.environment.update({one.name: one.value for one in garden.variables})
    return runner


def plant(digits: Path, garden: Garden) -> None:
    """Let files hold secrets that must not leave the machine, and a package's build, the tests and the job tell the others."""
    (digits / "src" / ".env").write_text(f"PASSWORD={garden.dotenv.value}\n")
    (digits / "src" / "id_rsa").write_text(f"-----BEGIN PRIVATE KEY-----\n{garden.ssh.value}\n")
    (digits / ".env").write_text(f"PASSWORD={garden.dotenv.value}\n")
    (digits / "src" / "said.txt").write_text("")
    job = digits / "job.yml"
    job.write_text(job.read_text() + f"environment_variables:\n  {garden.by_job.name}: {garden.by_job.value}\n")
    job.write_text(
        job.read_text()
        + f"  {garden.by_set.name}: nothing\n  SAID: nothing\ndisplay_name: run "
        + garden["MODEL_REGISTRY_KEY"]
        + "\n"
    )
    edit(
        digits / "aml-train.yml",
        "  command: pytest -q tests\n",
        f"  command: pytest -q tests\n  env: {{{garden.by_tests.name}: {garden.by_tests.value}, SAID: '{said(garden)}'}}\n",
    )


def said(garden: Garden) -> str:
    """Return everything that is to be printed, as one word that itself is full of secrets."""
    return base64.b64encode(garden.printed().encode()).decode()


def inputs(garden: Garden) -> dict[str, str]:
    """Return the step's inputs."""
    sets = [f"job.environment_variables.{garden.by_set.name}={garden.by_set.value}"]
    sets.append(f"job.environment_variables.SAID={said(garden)}")
    return {"set": "\n".join(sets), "creds": creds(garden)}


def creds(garden: Garden) -> str:
    ids = {"clientId": "11111111-2222-3333-4444-555555555555", "tenantId": "22222222-2222-3333-4444-555555555555"}
    return json.dumps({**ids, "clientSecret": garden.creds.value})


TELL = "import base64, os\nprint(base64.b64decode(os.environ['SAID']).decode())\n"


def check(runner: HostedRunner, step: Step, garden: Garden) -> None:
    """Nothing of it is in the log, nor in any file of the step."""
    read = Runner().read(step.log)
    log = "\n".join(
        [*read.shown, *(f"{done.properties}::{done.data}" for done in read.done if done.name != "add-mask")]
    )
    assert found_in(log, garden.all) == []
    for file in runner.files():
        if file.parent.name != ".docker":
            assert found_in(file.read_text(errors="replace"), garden.all) == [], file


@pytest.mark.full
def test_a_passing_run(step_runner: HostedRunner, local: Local, digits: Path, garden: Garden, tmp_path: Path) -> None:
    metric = garden["METRIC_SECRET"]
    (digits / "src" / "tell.py").write_text(
        f"{TELL}import mlflow, sys\n"
        "name = [one for one in base64.b64decode(os.environ['SAID']).decode().split() if one == sys.argv[1]][0]\n"
        "mlflow.log_metric('m/' + name, 1.0)\n"
        "os.makedirs('outputs/model', exist_ok=True)\nopen('outputs/model/weights', 'w').write('1')\n"
    )
    quick(digits, f"secrets-{word()}", f"python tell.py {metric}")
    with (digits / "aml-train.yml").open("a") as file:
        tag = garden["MODEL_REGISTRY_KEY"]
        file.write(f"gate: {{m/{metric}: '>= 0'}}\n")
        file.write(f"model: {{name: told, path: outputs/model, description: key {tag}, tags: {{key: {tag}}}}}\n")
    (digits / "tests" / "conftest.py").write_text(
        f"{TELL}def pytest_sessionfinish():\n    print(base64.b64decode(os.environ['SAID']).decode())\n"
    )
    plant(digits, garden)
    light(digits)
    tag = told_base(tmp_path / "base", garden)
    try:
        edit(digits / "aml-train.yml", f"base: {BASE}", f"base: {tag}")
        step_runner.checkout(digits)
        config = step_runner.workspace / ".git" / "config"
        config.write_text(
            config.read_text()
            + f'[http "https://github.com/"]\n\textraheader = basic {as_base64(garden.git.value)}\n'
        )
        step = step_runner.run(inputs(garden))
    finally:
        subprocess.run(["docker", "image", "rm", "-f", tag], check=False, capture_output=True)
    assert step.code == 0, step.log[-3000:]
    assert step.log.count("***") > 40, "it was told"
    assert step.outputs["model-name"] == "told"
    assert "***" in step.outputs["run-metrics"]
    check(step_runner, step, garden)

    # What stays behind: the image in the registry, with its history and the record of its tests; the engine; the storage.
    repository, _, digest = step.outputs["image"].partition("/")[2].partition("@")
    registry = f"http://localhost:{local.environment['AML_TRAIN_EMULATOR_REGISTRY_PORT']}/v2/{repository}"
    texts = list(registry_texts(registry))
    assert any(digest in text for text in texts)
    assert any("pytest -q tests" in text for text in texts), "the record of the tests is among them"
    assert found_in("\n".join(texts), garden.all) == []
    for command in (("history", "--no-trunc"), ("inspect",)):
        done = subprocess.run(
            ["docker", command[0], *command[1:], f"{registry.removeprefix('http://').replace('/v2/', '/')}@{digest}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert found_in(done.stdout, garden.all) == []
    assert stored(local, garden.files) == []
    assert stored(local, [garden.by_set]), "the search finds what is there: the job's own variables"


def light(digits: Path) -> None:
    """Leave out what takes long to be installed on a base of its own, and is of no account here."""
    (digits / "requirements.txt").write_text("mlflow-skinny==3.15.0\npytest==9.2.0\n")
    edit(digits / "aml-train.yml", "  ofed: {source: distro}\n", "")
    for file in (digits / "tests").glob("test_*.py"):
        file.unlink()
    (digits / "tests" / "test_one.py").write_text("def test_one():\n    assert True\n")


def told_base(folder: Path, garden: Garden) -> str:
    """Build a base that tells everything to whoever builds on it; return its tag."""
    folder.mkdir()
    (folder / "said").write_text(garden.printed())
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY said /said\nONBUILD RUN cat /said && rm /said\n")
    tag = f"told-base:{secrets.token_hex(4)}"
    subprocess.run(["docker", "build", "-q", "-t", tag, str(folder)], check=True, capture_output=True)
    return tag


def registry_texts(repository: str) -> Iterator[str]:
    """Yield tags, manifests, configurations and records of a repository: everything but the layers of images."""
    accept = ", ".join(
        f"application/vnd.{kind}+json"
        for kind in ("oci.image.manifest.v1", "docker.distribution.manifest.v2", "oci.image.index.v1")
    )
    with requests.Session() as session:
        session.trust_env = False
        tags = session.get(f"{repository}/tags/list", timeout=60)
        yield tags.text
        for tag in tags.json()["tags"]:
            manifest = session.get(f"{repository}/manifests/{tag}", headers={"Accept": accept}, timeout=60)
            yield f"{manifest.headers.get('Docker-Content-Digest')} {manifest.text}"
            document = manifest.json()
            # The list of an image's referrers is an index, which has no configuration. Records are layers of artifacts.
            blobs = [document["config"]] if "config" in document else []
            for blob in [*blobs, *(document["layers"] if "artifactType" in document else [])]:
                yield session.get(f"{repository}/blobs/{blob['digest']}", timeout=60).text


def stored(local: Local, planted: list[Planted]) -> list[str]:
    """Return the files of the local AzureML, code snapshots and database among them, that have one of these secrets."""
    forms = "\n".join(form for one in planted for part in one.hidden for form in disguises(part))
    argv = ["docker", "exec", "-i", local.environment["AML_TRAIN_EMULATOR_NAME"]]
    done = subprocess.run(
        [*argv, "grep", "-rlaF", "-f", "-", "/var/lib/aml-emulator"],
        input=forms,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.split()


@pytest.mark.full
def test_an_error_text(step_runner: HostedRunner, digits: Path, garden: Garden) -> None:
    quick(digits, "secrets-errors", "echo no")
    plant(digits, garden)
    base = f"base: localhost:1/{garden['BUILD_TOKEN']}:{garden['API_TOKEN']}"
    edit(digits / "aml-train.yml", f"base: {BASE}", base)
    (step_runner.home / ".docker").mkdir(parents=True)
    auths = {"localhost:1": {"auth": as_base64(garden.docker.value)}}
    (step_runner.home / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    step_runner.checkout(digits)
    step = step_runner.run(inputs(garden))
    assert step.code == 3, step.log[-3000:]
    assert step.errors()
    check(step_runner, step, garden)
