"""What ``image:`` says, built for real: drivers from a tarball, a private index, protected packages, one's own Dockerfile."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import io
import json
import os
import secrets
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from docker.errors import ImageNotFound

from aml_train.config.sections.image import CopyConfig, DockerfileConfig, ImageConfig, RunStep, SecretConfig
from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.config.sections.image_packages import CondaConfig, PipConfig, ProtectConfig
from aml_train.core.docker import BuildCli, engine_platform
from aml_train.core.errors import ImageError
from aml_train.core.events import to_json
from aml_train.core.references import ImageRef
from aml_train.image.base import BaseImages, docker_registries
from aml_train.image.build.build import Cache, build_image
from aml_train.image.collect import collect_inputs
from aml_train.image.inputs import BaseImage
from aml_train.image.push import push_image
from aml_train.image.readiness.check import judge_facts, probe_image, readiness_error
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.spec import ImageSpec, plan_image
from tests.integration.conftest import BASE, Recorder
from tests.integration.image.debian_packages import deb, repository
from tests.integration.image.package_index import Index, serve, serve_folder, wheel
from tests.support.docker_bridge import bridge_address

if TYPE_CHECKING:
    from docker import DockerClient

TOKEN = f"tok{secrets.token_hex(16)}"
Make = Callable[..., ImageSpec]
Build = Callable[[ImageSpec], str]


@pytest.fixture(scope="module")
def gateway(engine: DockerClient) -> str:
    """The address by which containers and builds reach this machine."""
    return bridge_address(engine.networks.get("bridge").attrs)


@pytest.fixture(scope="module")
def ubuntu(engine: DockerClient, cli: BuildCli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A stand-in for NVIDIA's image: Ubuntu's os-release, a torch of its own, and constraints for pip."""
    folder = tmp_path_factory.mktemp("ubuntu")
    name, content = wheel("torch", "2.1.0")
    (folder / name).write_bytes(content)
    (folder / "os-release").write_text('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n')
    (folder / "constraint.txt").write_text("helper==1.0\n")
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nCOPY os-release /usr/lib/os-release\nCOPY constraint.txt /etc/pip/constraint.txt\n"
        f"ENV PIP_CONSTRAINT=/etc/pip/constraint.txt\nCOPY {name} /\n"
        f"RUN PIP_BREAK_SYSTEM_PACKAGES=1 python -m pip install --no-index /{name} && rm /{name}\n"
        # Debian's pip writes nothing into its cache; pips with truststore (24.2) refuse addresses that are IP numbers.
        "RUN PIP_BREAK_SYSTEM_PACKAGES=1 python -m pip install --upgrade pip==24.0\n"
    )
    tag = f"aml-train-test-ubuntu-{secrets.token_hex(4)}:22.04"
    subprocess.run(
        [cli.path, "build", "--quiet", "--tag", tag, str(folder)],
        env=dict(cli.environ),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    yield tag
    engine.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def index(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """A private index."""
    files = dict(
        wheel(*one)
        for one in (
            ("our-package", "1.0", ("helper",)), ("helper", "1.0"), ("helper", "2.0"), ("torch", "2.2.0"),
            ("needs-torch", "1.0", ("torch>=2.2",)), ("azureml-mlflow", "1.62.0", ("helper",)),
            ("azureml-defaults", "1.62.0", ("azureml-dataset-runtime",)),
            ("azureml-dataset-runtime", "1.62.0", ("helper>=2",)),
        )
    )  # fmt: skip
    with serve(tmp_path_factory.mktemp("index"), gateway, files, login=f"build:{TOKEN}") as found:
        yield found


@pytest.fixture
def make(engine: DockerClient, tmp_path: Path) -> Make:
    """Plan an image as a run would, with a random variable that makes it the test's own."""
    platform = engine_platform(engine)

    bases = BaseImages(engine=lambda: engine, registries=docker_registries({}))

    def call(base: str | None = None, **values: Any) -> ImageSpec:
        reference = ImageRef.parse(base) if base else None
        config = ImageConfig(base=reference, repository="aml-train-test/spec", where="aml-train.yml:2", **values)
        found, inputs = collect_inputs(
            config,
            project=tmp_path,
            platform=platform,
            bases=bases,
            now=datetime.datetime.now(datetime.UTC),
        )
        return plan_image(config, found, inputs, platform)

    return call


@pytest.fixture
def build(engine: DockerClient, cli: BuildCli, recorder: Recorder) -> Iterator[Build]:
    """Build images that are removed after the test."""
    tags: list[str] = []
    environ = {**cli.environ, "FEED_TOKEN": TOKEN}

    def call(spec: ImageSpec) -> str:
        tags.append(f"aml-train-test-{secrets.token_hex(6)}:built")
        cache = Cache(repository="localhost:1/none")
        build_image(
            spec, cli=replace(cli, environ=environ), engine=engine, tag=tags[-1], listener=recorder, cache=cache
        )
        return tags[-1]

    yield call
    for tag in tags:
        with contextlib.suppress(ImageNotFound):  # its build failed, as it should
            engine.images.remove(tag, force=True)


def inside(engine: DockerClient, image: str, command: str) -> str:
    """Return what a shell command prints in *image*."""
    output: bytes = engine.containers.run(
        image, ["sh", "-c", command], remove=True, network_mode="none", entrypoint=[]
    )
    return output.decode()


INSTALLER = """\
#!/bin/sh
# The interface of NVIDIA's installer: it refuses what it does not know.
set -e
for option in "$@"; do
    case "$option" in
        --user-space-only|--without-fw-update|--all|--without-neohost-backend|--force) ;;
        *) echo "Unknown option: $option" >&2; exit 1 ;;
    esac
done
command -v lsb_release perl lspci >/dev/null
printf '%s\\n' "$@" > /etc/ofed-options
install -m 755 "$(dirname "$0")/ofed_info" /usr/bin/ofed_info
"""


@pytest.fixture(scope="module")
def tarball(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A served tarball of MLNX_OFED's form: its address and its SHA-256."""
    name = "MLNX_OFED_LINUX-5.8-2.0.3.0-ubuntu22.04-x86_64"
    files = {"mlnxofedinstall": INSTALLER, "ofed_info": "#!/bin/sh\necho MLNX_OFED_LINUX-5.8-2.0.3.0:\n"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file, text in files.items():
            info = tarfile.TarInfo(f"{name}/{file}")
            info.size, info.mode = len(text), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    folder = tmp_path_factory.mktemp("tarball")
    (folder / f"{name}.tgz").write_bytes(buffer.getvalue())
    with serve_folder(folder, gateway) as url:
        yield f"{url}/{name}.tgz", hashlib.sha256(buffer.getvalue()).hexdigest()


@pytest.mark.full
def test_drivers_from_a_tarball(
    ubuntu: str, tarball: tuple[str, str], make: Make, build: Build, engine: DockerClient
) -> None:
    url, sha256 = tarball
    image = build(make(ubuntu, ofed=OfedConfig(source="mlnx_ofed", version="5.8-2.0.3.0", url=url, sha256=sha256)))

    options = inside(engine, image, "cat /etc/ofed-options").split()
    assert options == ["--user-space-only", "--without-fw-update", "--all", "--without-neohost-backend", "--force"]
    assert inside(engine, image, "ofed_info") == "MLNX_OFED_LINUX-5.8-2.0.3.0:\n"
    assert inside(engine, image, "find / -xdev -name '*.tgz' -o -xdev -name mlnxofedinstall").strip() == ""
    assert b"mlnxofedinstall\x00" not in b"".join(engine.images.get(image).save())


@pytest.mark.full
def test_a_tarball_that_is_another(ubuntu: str, tarball: tuple[str, str], make: Make, build: Build) -> None:
    url, sha256 = tarball
    wrong = "0" * 64
    with pytest.raises(ImageError) as caught:
        build(make(ubuntu, ofed=OfedConfig(source="mlnx_ofed", version="5.8-2.0.3.0", url=url, sha256=wrong)))
    assert caught.value.message == (
        f"the MLNX_OFED tarball is not the expected one: its SHA-256 is\n  {sha256}\ninstead of\n  {wrong}"
    )
    assert (
        caught.value.hint == "Check image.ofed.url and image.ofed.sha256; a mirror or proxy may serve something else."
    )


@pytest.fixture(scope="module")
def doca(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A served package of doca-host's form: its address and its SHA-256."""
    held = repository(
        {
            "mft_4.31": deb("mft", "4.31", files={"/etc/mft": b"DOCA's"}),
            "doca-ofed-userspace_3.2.1": deb("doca-ofed-userspace", "3.2.1", depends="mft (= 4.31)"),
        },
        label="DOCA-HOST 3.2",
    )
    place = "/usr/share/doca-host-3.2.1-044000-25.10-ubuntu2204/repo"
    files = {f"{place}/{path}": content for path, content in held.items()}
    content = deb("doca-host", "3.2.1-044000-25.10-ubuntu2204", files=files)
    folder = tmp_path_factory.mktemp("doca")
    (folder / "doca-host.deb").write_bytes(content)
    with serve_folder(folder, gateway) as url:
        yield f"{url}/doca-host.deb", hashlib.sha256(content).hexdigest()


@pytest.fixture
def with_cuda(ubuntu: str, engine: DockerClient, cli: BuildCli, tmp_path: Path) -> Iterator[str]:
    """A base with a repository, as CUDA's is, whose mft is newer than that of DOCA."""
    for path, content in repository({"mft_4.99": deb("mft", "4.99")}, label="CUDA").items():
        (tmp_path / "cuda" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cuda" / path).write_bytes(content)
    (tmp_path / "Dockerfile").write_text(
        f"FROM {ubuntu}\nCOPY cuda /opt/cuda\n"
        "RUN echo 'deb [trusted=yes] file:/opt/cuda ./' > /etc/apt/sources.list.d/cuda.list\n"
    )
    tag = f"aml-train-test-cuda-{secrets.token_hex(4)}:22.04"
    command = [cli.path, "build", "--quiet", "--tag", tag, str(tmp_path)]
    subprocess.run(command, env=dict(cli.environ), check=True, stdout=subprocess.DEVNULL)
    yield tag
    engine.images.remove(tag, force=True)


@pytest.mark.full
def test_drivers_from_docas_package(
    with_cuda: str, doca: tuple[str, str], make: Make, build: Build, engine: DockerClient
) -> None:
    url, sha256 = doca
    image = build(make(with_cuda, ofed=OfedConfig(source="doca", version="3.2.1", url=url, sha256=sha256)))

    installed = inside(
        engine, image, "dpkg-query --show --showformat '${Package} ${Version}\\n' mft doca-ofed-userspace"
    )
    assert installed == "doca-ofed-userspace 3.2.1\nmft 4.31\n"
    assert "is not installed" in inside(engine, image, "dpkg-query -s doca-host 2>&1 || true")
    assert inside(engine, image, "find /etc/apt /tmp /usr/share -name '*doca*' -o -name '*.deb'") == ""
    assert b"/repo/Packages\x00" not in b"".join(engine.images.get(image).save())


@pytest.mark.full
def test_the_distribution_of_a_base(
    ubuntu: str, engine: DockerClient, registry_location: RegistryLocation, recorder: Recorder
) -> None:
    """From the engine, where it has the base; otherwise from the base's registry."""
    platform = engine_platform(engine)
    bases = BaseImages(engine=lambda: engine, registries=docker_registries({}))
    here = bases.resolve(ImageRef.parse(ubuntu), platform)
    assert bases.distribution(here, platform) == "ubuntu22.04"
    assert bases.drivers(here, platform) is None

    name = f"{registry_location.push_name}/aml-train-test/os"
    engine.images.get(BASE).tag(name, "1")
    try:
        digest = push_image(engine, name, "1", auth=None, listener=recorder)
    finally:
        engine.images.remove(f"{name}:1")
    there = BaseImage(reference=ImageRef.parse(f"{name}:1"), digest=digest)
    assert bases.distribution(there, platform) == "debian12"
    assert bases.drivers(there, platform) is None


def private(index: Index, folder: Path, *packages: str, **pip: Any) -> dict[str, Any]:
    """Return the parts of a configuration that install *packages* from the private index."""
    (folder / "authority.pem").write_bytes(index.authority)
    address = index.url.removeprefix("https://")
    return {
        "ca_certificates": (folder / "authority.pem",),
        "secrets": {"feed": SecretConfig(env="FEED_TOKEN", where="aml-train.yml:5")},
        "pip": PipConfig(packages=packages, index_url=f"https://build:${{feed}}@{address}/simple", **pip),
    }


def _authority(name: str) -> bytes:
    """Return the certificate of a certification authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    today = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(today)
        .not_valid_after(today + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


TRUSTED = """\
import ssl
for found in ssl.create_default_context().get_ca_certs():
    print(dict(one[0] for one in found["subject"]).get("commonName") or found["serialNumber"])
"""


@pytest.mark.full
def test_authorities_are_added_to_what_the_base_trusts(
    make: Make, build: Build, engine: DockerClient, cli: BuildCli, tmp_path: Path
) -> None:
    """The base's variables name a file with two authorities and a folder with one; a fifth was written into its system's bundle."""
    folder = tmp_path / "base"
    (folder / "folder").mkdir(parents=True)
    (folder / "bundle.pem").write_bytes(_authority("trust one").replace(b"\n", b"\r\n") + _authority("trust two"))
    (folder / "folder/three.pem").write_bytes(_authority("trust three"))
    (folder / "five.pem").write_bytes(_authority("trust five"))
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nCOPY bundle.pem /opt/bundle.pem\nCOPY folder/ /opt/folder/\nCOPY five.pem /tmp/\n"
        "RUN cat /tmp/five.pem >> /etc/ssl/certs/ca-certificates.crt\n"
        "ENV SSL_CERT_FILE=/opt/bundle.pem REQUESTS_CA_BUNDLE=/opt/folder\n"
    )
    tag = f"aml-train-test-trusting-{secrets.token_hex(4)}:1"
    command = [cli.path, "build", "--quiet", "--tag", tag, str(folder)]
    subprocess.run(command, env=dict(cli.environ), check=True, stdout=subprocess.DEVNULL)
    (tmp_path / "ours.pem").write_bytes(_authority("trust four"))
    script = f"env -u SSL_CERT_FILE python -c '{TRUSTED}'"
    try:
        system = inside(engine, tag, script).splitlines()
        image = build(make(tag, ca_certificates=(tmp_path / "ours.pem",)))
    finally:
        engine.images.remove(tag, force=True)
    ours = ["trust five", "trust four", "trust one", "trust three", "trust two"]
    trusted = inside(engine, image, f"python -c '{TRUSTED}'").splitlines()
    assert sorted(one for one in trusted if one.startswith("trust ")) == ours
    assert set(system) - set(trusted) == set()


def test_a_token_is_nowhere(
    ubuntu: str,
    index: Index,
    make: Make,
    build: Build,
    engine: DockerClient,
    recorder: Recorder,
    tmp_path: Path,
    cli: BuildCli,
) -> None:
    (tmp_path / "constraints.txt").write_text("our-package<2\n")
    parts = private(index, tmp_path, "our-package", constraints=tmp_path / "constraints.txt")
    leak = RunStep(
        command='echo "the token is $(cat /run/secrets/feed)" && test -s /run/secrets/feed', secrets=("feed",)
    )
    spec = make(ubuntu, **parts, run=(leak,), env={"TEST": tmp_path.name})
    # Caches of the test's own: other builds on this engine have theirs in use.
    spec = replace(spec, repository=f"test-{secrets.token_hex(4)}")
    apart = spec.trust.build_arguments(spec.repository)
    image = build(spec)

    basic = base64.b64encode(f"build:{TOKEN}".encode())
    assert index.seen[-1] == f"Basic {basic.decode()}"
    assert inside(engine, image, "python -c 'import our_package, helper; print(helper.__version__)'") == "1.0\n"
    wanted = [TOKEN.encode(), basic, TOKEN[::-1].encode()]
    whole = b"".join(engine.images.get(image).save())
    assert b"our_package" in whole
    history = engine.images.get(image).history()
    lines = "\n".join(to_json(event) for event in recorder.events)
    assert "the token is ***" in lines
    texts = [
        whole,
        repr(history).encode(),
        repr(spec).encode(),
        lines.encode(),
        repr(engine.images.get(image).attrs).encode(),
    ]
    assert [word for word in wanted for text in texts if word in text] == []

    # What a later build finds in the engine's caches: the mounts of pip and apt. (With --no-cache they would be new.)
    (tmp_path / "Dockerfile").write_text(
        f"FROM {BASE}\nRUN --mount=type=cache,target=/root/.cache/pip,sharing=locked --mount=type=cache,target=/var/cache/aml-train-apt,sharing=locked \\\n"
        f"    --mount=type=secret,id=feed grep -rqF our_package.py /root/.cache/pip \\\n"
        '    && ! grep -rqF "$(cat /run/secrets/feed)" /root/.cache /var/cache/aml-train-apt && echo clean\n'
    )
    done = subprocess.run(
        [
            *(cli.path, "build", "--progress=plain", "--secret=id=feed,env=FEED_TOKEN"),
            *(f"--build-arg={name}={value}" for name, value in apart.items()),
            str(tmp_path),
        ],
        env={**cli.environ, "FEED_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert " clean" in done.stderr


@pytest.mark.full
def test_an_error_has_no_token(
    ubuntu: str, index: Index, make: Make, build: Build, tmp_path: Path, recorder: Recorder
) -> None:
    with pytest.raises(ImageError, match="no-such-package: no such package") as caught:
        build(make(ubuntu, **private(index, tmp_path, "no-such-package")))
    assert TOKEN not in str(caught.value)
    assert TOKEN not in "".join(to_json(event) for event in recorder.events)


def test_packages_that_do_not_fit_end_a_plan(ubuntu: str, index: Index, gateway: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(index.authority)
    (tmp_path / "job.yml").write_text("command: python -V\nenvironment: azureml:e:1\ncompute: c\n")
    (tmp_path / "aml-train.yml").write_text(
        f"job: job.yml\nimage:\n  base: {ubuntu}\n  ca-certificates: [ca.pem]\n  pip:\n"
        f"    index-url: {index.url.replace('https://', 'https://build:${feed}@')}/simple\n"
    )

    lock = tmp_path / "lock.txt"

    def plan(*settings: str) -> subprocess.CompletedProcess[str]:
        words = [word for one in ("image.secrets.feed.env=FEED_TOKEN", *settings) for word in ("--set", one)]
        return subprocess.run(
            [sys.executable, "-m", "aml_train", "plan", "-C", str(tmp_path), "--json", f"--lock={lock}", *words],
            env={**os.environ, "FEED_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            check=False,
        )

    began = time.monotonic()
    refused = plan("image.azureml-defaults=1.62.0")
    # Ten seconds of a machine that has nothing else to do.
    assert time.monotonic() - began < 10 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert refused.returncode == 3
    assert f"aml-train.yml:3: the packages for {ubuntu} (Python 3.11) do not fit together:" in refused.stderr
    assert "azureml-dataset-runtime 1.62.0 depends on helper>=2" in refused.stderr
    assert "helper==1.0 is a constraint of the base's /etc/pip/constraint.txt" in refused.stderr
    assert "`azureml-mlflow:` in place of `azureml-defaults:`" in refused.stderr
    assert TOKEN not in refused.stderr + refused.stdout

    other = plan("image.azureml-mlflow=1.62.0")
    assert json.loads(other.stdout)["image"]["packages"] == {"azureml-mlflow": "1.62.0", "helper": "1.0"}
    assert lock.read_text().splitlines()[1:] == ["azureml-mlflow==1.62.0", "helper==1.0"]
    for word in ("none", "torch-only"):
        free = plan("image.azureml-defaults=1.62.0", f"image.constraints={word}")
        assert json.loads(free.stdout)["image"]["packages"]["helper"] == "2.0"
    away = plan("image.azureml-defaults=1.62.0", f"image.pip.index-url=https://{gateway}:9/simple")
    assert (away.returncode, "there are no versions to write" in away.stderr) == (2, True)
    assert "The packages were not resolved before the build: an index did not answer" in "".join(
        json.loads(away.stdout)["notes"]
    )


@pytest.mark.full
def test_the_bases_torch_is_protected(
    ubuntu: str, index: Index, make: Make, build: Build, engine: DockerClient, tmp_path: Path
) -> None:
    parts = private(index, tmp_path, "needs-torch")
    with pytest.raises(ImageError) as caught:
        build(make(ubuntu, **parts))
    assert caught.value.message == "protected packages of the base have changed:\n  torch 2.1.0 became 2.2.0 (pip)"
    assert "protect: {allow: [torch]}" in (caught.value.hint or "")

    image = build(make(ubuntu, **parts, protect=ProtectConfig(allow=("torch",))))
    assert inside(engine, image, "python -c 'import torch; print(torch.__version__)'") == "2.2.0\n"


def test_files_commands_and_user(ubuntu: str, make: Make, build: Build, engine: DockerClient, tmp_path: Path) -> None:
    (tmp_path / "data/inner").mkdir(parents=True)
    (tmp_path / "data/inner/a.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "data/inner/a.sh").chmod(0o755)
    (tmp_path / "data/.env").write_text("SECRET=1")
    (tmp_path / "one.txt").write_text("one\n")
    spec = make(
        ubuntu,
        copy=(
            CopyConfig(source=tmp_path / "data", target="/opt/data"),
            CopyConfig(source=tmp_path / "one.txt", target="/opt/renamed"),
        ),
        run=(
            RunStep(command='/opt/data/inner/a.sh > /opt/out && echo "$GREETING" >> /opt/out'),
            RunStep(command="useradd -m aml"),
        ),
        env={"GREETING": 'a "b" $c'},
        user="aml",
    )
    image = build(spec)
    assert inside(engine, image, "cat /opt/out /opt/renamed; id -un; ls -A /opt/data").split("\n") == [
        "ran", 'a "b" $c', "one", "aml", "inner", "",
    ]  # fmt: skip
    labels = engine.images.get(image).labels
    assert labels["org.opencontainers.image.base.name"] == ubuntu


OWN = """\
ARG START
FROM ${START} AS start
RUN --mount=type=secret,id=feed test -s /run/secrets/feed
FROM start AS wanted
ARG WORD
COPY --from=start /etc/os-release /copied
COPY kept /kept
RUN echo "$WORD" > /word
USER nobody
FROM start AS other
RUN exit 1
"""


@pytest.mark.full
def test_ones_own_dockerfile(ubuntu: str, make: Make, build: Build, engine: DockerClient, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(OWN)
    (tmp_path / "kept").write_text("kept\n")
    (tmp_path / ".dockerignore").write_text("*\n!kept\n")
    own = DockerfileConfig(
        file=tmp_path / "Dockerfile", context=tmp_path, target="wanted", args={"START": ubuntu, "WORD": "hi"}
    )
    spec = make(dockerfile=own, secrets={"feed": SecretConfig(env="FEED_TOKEN")})
    assert spec.base.reference.familiar == ubuntu
    image = build(spec)
    assert inside(engine, image, "cat /kept /word; id -un") == "kept\nhi\nnobody\n"
    assert make(dockerfile=replace(own, args={**own.args, "WORD": "ho"})).address != spec.address

    changing = OWN.replace("USER nobody", "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip uninstall --yes torch\nUSER nobody")
    (tmp_path / "Dockerfile").write_text(changing)
    with pytest.raises(
        ImageError, match=r"protected packages of the base have changed:\n  torch 2.1.0 was removed \(pip\)"
    ):
        build(make(dockerfile=own, secrets={"feed": SecretConfig(env="FEED_TOKEN")}))


MICROMAMBA = """\
#!/usr/bin/env python3
# The interface of micromamba, as far as the build uses it: what it does not know is refused.
import argparse, io, os, pathlib, tarfile, urllib.request
parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["create"])
for option in ("--yes", "--no-rc"):
    parser.add_argument(option, action="store_true", required=True)
for option in ("--prefix", "--file"):
    parser.add_argument(option, required=True)
given = parser.parse_args()
lines = [line.strip() for line in open(given.file)]
[channel] = [line[2:] for line in lines if line.startswith("- http")]
for name in [line[2:] for line in lines if line.startswith("- ") and "http" not in line]:
    content = urllib.request.urlopen(f"{channel}/linux-64/{name.replace('=', '-')}-0.tar.bz2").read()
    pathlib.Path(os.environ["CONDA_PKGS_DIRS"], name).write_bytes(content)
    tarfile.open(fileobj=io.BytesIO(content)).extractall(given.prefix)
"""


@pytest.mark.full
def test_a_conda_environment_from_a_local_channel(
    ubuntu: str, gateway: str, cli: BuildCli, make: Make, build: Build, engine: DockerClient, tmp_path: Path
) -> None:
    """A stand-in for micromamba, for its image cannot be pulled everywhere; the channel's packages are of conda's form."""
    (tmp_path / "channel/linux-64").mkdir(parents=True)
    tool = b"#!/bin/sh\necho tool 1.0\n"
    with tarfile.open(tmp_path / "channel/linux-64/tool-1.0-0.tar.bz2", "w:bz2") as archive:
        info = tarfile.TarInfo("bin/tool")
        info.size, info.mode = len(tool), 0o755
        archive.addfile(info, io.BytesIO(tool))
    (tmp_path / "stand-in").mkdir()
    (tmp_path / "stand-in/micromamba").write_text(MICROMAMBA)
    (tmp_path / "stand-in/micromamba").chmod(0o755)
    (tmp_path / "stand-in/Dockerfile").write_text(f"FROM {BASE}\nCOPY micromamba /bin/micromamba\n")
    tag = f"aml-train-test-micromamba-{secrets.token_hex(4)}:1"
    argv = [cli.path, "build", "--quiet", "--tag", tag, str(tmp_path / "stand-in")]
    subprocess.run(argv, env=dict(cli.environ), check=True, stdout=subprocess.DEVNULL)
    try:
        with serve_folder(tmp_path, gateway) as url:
            (tmp_path / "environment.yml").write_text(f"channels:\n  - {url}/channel\ndependencies:\n  - tool=1.0\n")
            conda = CondaConfig(file=tmp_path / "environment.yml", micromamba=ImageRef.parse(tag))
            image = build(make(ubuntu, conda=conda, run=(RunStep(command="tool > /made-with-it"),)))
    finally:
        engine.images.remove(tag, force=True)
    assert inside(engine, image, "cat /made-with-it; tool; command -v tool; echo $CONDA_PREFIX") == (
        "tool 1.0\ntool 1.0\n/opt/environment/bin/tool\n/opt/environment\n"
    )
    assert inside(engine, image, "find / -xdev -name micromamba -o -xdev -path '*conda/*'").strip() == ""


@pytest.mark.full
def test_azureml_defaults_and_drivers_are_ready(make: Make, build: Build, engine: DockerClient) -> None:
    """The real packages of Azure and of the distribution, as the readiness checks see them."""
    spec = make(
        BASE, ofed=OfedConfig(source="distro"), azureml_defaults="latest", apt=("libfuse2", "ca-certificates")
    )
    image = build(spec)
    findings = judge_facts(probe_image(engine, image), spec.checks)
    assert readiness_error(findings) is None
    found = {finding.check: finding.what for finding in findings}
    assert found["azureml-packages"].startswith("azureml-defaults 1.")
    assert "the mlx5 provider loads" in found["mlx5"]
