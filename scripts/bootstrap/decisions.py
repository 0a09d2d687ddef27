"""Decide the next step from the facts about the machine. Pure.

Every ``decide_*`` answers None when its need is met, a step that brings the machine closer, or :class:`Blocked`
with instructions if only a person can continue. Steps that were carried out already are among the facts
(``attempted``), so that no decision repeats one that did not help.
"""

from __future__ import annotations

from dataclasses import dataclass

MINIMUM_PYTHON = (3, 11)
MINIMUM_NODE = 20


@dataclass(frozen=True, kw_only=True)
class Host:
    """The machine itself.

    Attributes:
        root: whether this process may do everything.
        system: as ``platform.system()`` spells it: ``Linux``, ``Darwin``.
        apt: whether it is a Debian or one of its descendants.
        systemd: whether systemd runs as the machine's init.
        python: the version of the Python that runs this, major and minor.
    """

    root: bool
    system: str
    apt: bool
    systemd: bool
    python: tuple[int, int]

    @property
    def can_install(self) -> bool:
        """Whether packages of the distribution can be installed without asking a person."""
        return self.root and self.apt


@dataclass(frozen=True, kw_only=True)
class AptInstall:
    """Install packages of the distribution; those of *optional* if it has them."""

    packages: tuple[str, ...]
    optional: tuple[str, ...] = ()
    why: str

    def __str__(self) -> str:
        return f"install {' '.join(self.packages)} with apt-get: {self.why}"


@dataclass(frozen=True, kw_only=True)
class CreateVenv:
    """Make ``.venv`` from the lock file, with the project in it."""

    def __str__(self) -> str:
        return "make .venv from requirements/dev.txt"


@dataclass(frozen=True, kw_only=True)
class StartDaemon:
    """Start the Docker engine that is installed."""

    systemd: bool

    def __str__(self) -> str:
        return "start the Docker engine" + (" with systemd" if self.systemd else ": dockerd in the background")


@dataclass(frozen=True, kw_only=True)
class AwaitDaemon:
    """Wait for a Docker engine that is on its way up."""

    pid: int

    def __str__(self) -> str:
        return f"wait for the Docker engine (process {self.pid}) to answer"


@dataclass(frozen=True, kw_only=True)
class PullImage:
    """Get an image from its registry."""

    reference: str

    def __str__(self) -> str:
        return f"pull {self.reference}"


@dataclass(frozen=True, kw_only=True)
class ImportStandIn:
    """Make an image like the official one with debootstrap, because the pull failed."""

    reference: str
    reason: str

    def __str__(self) -> str:
        return (
            f"make a STAND-IN for {self.reference} with debootstrap, under the same name: "
            f"the image itself could not be pulled ({self.reason})"
        )


@dataclass(frozen=True, kw_only=True)
class BuildEmulatorImage:
    """Build the local AzureML's image from this checkout."""

    reference: str
    source: str

    def __str__(self) -> str:
        return f"build {self.reference} from runner/aml_emulator"


@dataclass(frozen=True, kw_only=True)
class InstallNode:
    """Install Node.js in the checkout."""

    def __str__(self) -> str:
        return "put Node.js into .aml-train"


@dataclass(frozen=True, kw_only=True)
class InstallAzurite:
    """Install Azurite in the checkout."""

    def __str__(self) -> str:
        return "put Azurite into .aml-train from runner/aml_emulator/package-lock.json"


@dataclass(frozen=True, kw_only=True)
class InstallDevcontainers:
    """Install the command line of dev containers in the checkout."""

    def __str__(self) -> str:
        return "put the devcontainer command into .aml-train from tests/support/devcontainers/package-lock.json"


@dataclass(frozen=True, kw_only=True)
class CreateClientV1:
    """Make an environment with azureml-core, whose pins are not those of ``.venv``."""

    def __str__(self) -> str:
        return "put azureml-core into .aml-train from requirements/client.txt"


Step = (
    AptInstall
    | CreateVenv
    | CreateClientV1
    | StartDaemon
    | AwaitDaemon
    | PullImage
    | ImportStandIn
    | BuildEmulatorImage
    | InstallNode
    | InstallAzurite
    | InstallDevcontainers
)


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """The machine cannot be set up from here.

    Attributes:
        problem: what is missing.
        remedy: what a person can do about it, to the letter.
    """

    problem: str
    remedy: str


Decision = Step | Blocked | None
Attempted = frozenset[type[Step]]
_NOTHING_YET: Attempted = frozenset()


@dataclass(frozen=True, kw_only=True)
class VenvFacts:
    """The facts about the virtual environment.

    Attributes:
        up_to_date: whether ``.venv`` was made from the present lock file and project metadata.
        can_make_venvs: whether this Python has ``ensurepip``, which Debian packages apart.
    """

    host: Host
    up_to_date: bool
    can_make_venvs: bool
    attempted: Attempted = _NOTHING_YET


def decide_venv(facts: VenvFacts) -> Decision:
    """Decide how ``.venv`` comes to agree with the lock file."""
    host = facts.host
    if host.python < MINIMUM_PYTHON:
        return Blocked(
            problem=f"Python {host.python[0]}.{host.python[1]} is too old; aml-train needs 3.11 or later",
            remedy="name a newer one: make PYTHON=python3.12 …",
        )
    if facts.up_to_date:
        return None
    if not facts.can_make_venvs:
        package = f"python{host.python[0]}.{host.python[1]}-venv"
        if host.can_install and AptInstall not in facts.attempted:
            return AptInstall(packages=(package,), why="this Python cannot make virtual environments")
        return Blocked(
            problem="this Python cannot make virtual environments: it lacks ensurepip",
            remedy=f"sudo apt-get install {package}"
            if host.apt
            else "install a complete Python 3.11 or later, and name it: make PYTHON=/path/to/python3 …",
        )
    if CreateVenv in facts.attempted:
        return Blocked(
            problem=".venv is still not up to date after it was made", remedy="rm -rf .venv, and try again"
        )
    return CreateVenv()


def decide_client_v1(*, up_to_date: bool, attempted: Attempted) -> Decision:
    """Decide how azureml-core comes to be there, for the tests that ask with it."""
    if up_to_date:
        return None
    if CreateClientV1 in attempted:
        return Blocked(
            problem="the environment of azureml-core is still not up to date after it was made",
            remedy="rm -rf .aml-train/client-v1, and try again",
        )
    return CreateClientV1()


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """The facts about the Docker engine and its command line.

    Attributes:
        answers: whether an engine answers where the client would look for it.
        error: why it does not, in the words of the attempt.
        forbidden: whether the attempt failed for lack of permission.
        docker_host: DOCKER_HOST, where it is set.
        daemon_installed: whether there is a ``dockerd`` that could be started.
        daemon_pid: the process of a ``dockerd`` that runs, or None.
        buildkit: whether one of the ``docker`` programs on PATH can build with BuildKit.
        log_tail: the end of the log of a daemon that was started here and did not come up.
    """

    host: Host
    answers: bool
    error: str = ""
    forbidden: bool = False
    docker_host: str | None = None
    daemon_installed: bool = False
    daemon_pid: int | None = None
    buildkit: bool = False
    log_tail: str = ""
    attempted: Attempted = _NOTHING_YET


_ENGINE_PACKAGES = ("docker.io", "iptables", "ca-certificates")
# Debian 13 and Ubuntu package the command line, or its BuildKit part, apart.
_CLIENT_PACKAGES = ("docker-cli", "docker-buildx")


def decide_engine(facts: EngineFacts) -> Decision:
    """Decide how to get an engine that answers, and a client with BuildKit."""
    return _decide_client(facts) if facts.answers else _decide_daemon(facts)


def _decide_client(facts: EngineFacts) -> Decision:
    if facts.buildkit:
        return None
    if facts.host.can_install and AptInstall not in facts.attempted:
        return AptInstall(
            packages=("docker.io",),
            optional=_CLIENT_PACKAGES,
            why="no docker command on PATH can build with BuildKit",
        )
    return Blocked(
        problem="a Docker engine answers, but no docker command on PATH can build with BuildKit",
        remedy="install Docker's buildx plugin: sudo apt-get install docker-buildx (or docker-buildx-plugin from "
        "Docker's own repository); elsewhere see https://docs.docker.com/go/buildx/",
    )


def _decide_daemon(facts: EngineFacts) -> Decision:
    host = facts.host
    if facts.docker_host is not None:
        return Blocked(
            problem=f"no Docker engine answers at DOCKER_HOST={facts.docker_host}: {facts.error}",
            remedy="start that engine, or unset DOCKER_HOST to use this machine's own",
        )
    if facts.forbidden:
        return Blocked(
            problem=f"there is a Docker engine, but this user may not use it: {facts.error}",
            remedy='sudo usermod -aG docker "$USER", then log in again (or run this with sudo)',
        )
    if host.system != "Linux":
        return Blocked(
            problem=f"no Docker engine answers: {facts.error}",
            remedy="start Docker Desktop, or: brew install colima docker docker-buildx && colima start "
            "(then export DOCKER_HOST as `docker context ls` shows it)",
        )
    if facts.daemon_pid is not None:
        if AwaitDaemon not in facts.attempted:
            return AwaitDaemon(pid=facts.daemon_pid)
        return Blocked(
            problem=f"dockerd runs (process {facts.daemon_pid}) and does not answer: {facts.error}",
            remedy="look at its log and stop or restart it; a second one is never started",
        )
    if not facts.daemon_installed:
        if host.can_install and AptInstall not in facts.attempted:
            return AptInstall(
                packages=_ENGINE_PACKAGES, optional=_CLIENT_PACKAGES, why="there is no Docker engine on this machine"
            )
        return Blocked(
            problem="there is no Docker engine on this machine",
            remedy="sudo apt-get update && sudo apt-get install -y docker.io && "
            'sudo usermod -aG docker "$USER", then log in again (or run this as root)'
            if host.apt
            else "install one: https://docs.docker.com/engine/install/",
        )
    if StartDaemon in facts.attempted:
        return Blocked(
            problem="the Docker engine was started and does not answer"
            + (f":\n{facts.log_tail}" if facts.log_tail else ""),
            remedy="journalctl -u docker --no-pager -n 50" if host.systemd else "run dockerd in a separate terminal",
        )
    if host.root:
        return StartDaemon(systemd=host.systemd)
    return Blocked(
        problem="the Docker engine is installed but does not run",
        remedy="sudo systemctl start docker" if host.systemd else "sudo dockerd, in a separate terminal",
    )


@dataclass(frozen=True, kw_only=True)
class BaseImageFacts:
    """The facts about an official image that others are built FROM.

    Attributes:
        reference: its name and tag.
        present: whether it exists in the engine.
        pull_error: why it could not be pulled, once that was tried.
        debootstrap: whether debootstrap is installed.
    """

    host: Host
    reference: str
    present: bool
    pull_error: str | None = None
    debootstrap: bool = False
    attempted: Attempted = _NOTHING_YET


def decide_base_image(facts: BaseImageFacts) -> Decision:
    """Decide how to get the image: from its registry, or else as a substitute."""
    if facts.present:
        return None
    if facts.pull_error is None:
        return PullImage(reference=facts.reference)
    if not (facts.host.can_install and facts.host.system == "Linux") or ImportStandIn in facts.attempted:
        return Blocked(
            problem=f"{facts.reference} could not be pulled: {facts.pull_error}",
            remedy=f"make `docker pull {facts.reference}` work (network, proxy, registry mirror, docker login), or "
            f"`docker load` the image from elsewhere; as root on Debian or Ubuntu a stand-in is made",
        )
    if not facts.debootstrap:
        if AptInstall in facts.attempted:
            return Blocked(
                problem="debootstrap is still missing after it was installed", remedy="apt-get install debootstrap"
            )
        return AptInstall(
            packages=("debootstrap", "debian-archive-keyring", "ca-certificates"),
            why=f"{facts.reference} could not be pulled, and debootstrap makes a stand-in",
        )
    return ImportStandIn(reference=facts.reference, reason=facts.pull_error)


@dataclass(frozen=True, kw_only=True)
class EmulatorImageFacts:
    """The facts about the local AzureML's image.

    Attributes:
        reference: its name and tag, for this version.
        built_from: the source hash that the engine's image is labelled with; None where there is no image.
        source: the hash of the sources as they are.
    """

    reference: str
    built_from: str | None
    source: str
    attempted: Attempted = _NOTHING_YET


def decide_emulator_image(facts: EmulatorImageFacts) -> Decision:
    """Decide whether to build the image again."""
    if facts.built_from == facts.source:
        return None
    if BuildEmulatorImage in facts.attempted:
        return Blocked(
            problem=f"{facts.reference} was built and does not carry its source's hash",
            remedy="did the sources change meanwhile? Try again",
        )
    return BuildEmulatorImage(reference=facts.reference, source=facts.source)


@dataclass(frozen=True, kw_only=True)
class ServiceFacts:
    """The facts about the services that tests run as plain processes.

    Attributes:
        registry: whether there is a ``docker-registry`` program.
        azurite: whether ``.aml-train`` holds the Azurite of the lock file.
        node: the major version of a Node.js that comes with npm; None without.
        devcontainers: whether ``.aml-train`` holds the ``devcontainer`` command of the lock file.
    """

    host: Host
    registry: bool
    azurite: bool
    node: int | None
    devcontainers: bool = True
    attempted: Attempted = _NOTHING_YET


def decide_services(facts: ServiceFacts) -> Decision:
    """Decide how the tests' services come to be there."""
    if not facts.registry:
        if facts.host.can_install and AptInstall not in facts.attempted:
            return AptInstall(packages=("docker-registry",), why="integration tests push to a separate registry")
        return Blocked(
            problem="the integration tests need a docker-registry program",
            remedy="sudo apt-get install docker-registry"
            if facts.host.apt
            else "put the `registry` program of https://github.com/distribution/distribution on PATH "
            "under the name docker-registry",
        )
    if facts.azurite and facts.devcontainers:
        return None
    if facts.node is None or facts.node < MINIMUM_NODE:
        if InstallNode in facts.attempted:
            return Blocked(
                problem="Node.js was put into .aml-train and does not run",
                remedy=f"install Node.js {MINIMUM_NODE} or later with npm, and try again",
            )
        return InstallNode()
    missing = InstallDevcontainers() if facts.azurite else InstallAzurite()
    if type(missing) in facts.attempted:
        name = "the devcontainer command" if facts.azurite else "Azurite"
        return Blocked(problem=f"{name} was installed and is not there", remedy="rm -rf .aml-train, and try again")
    return missing


@dataclass(frozen=True, kw_only=True)
class BrowserFacts:
    """The facts about the browser that tests use for the local AzureML's page.

    Attributes:
        browser: whether there is a Chrome or Chromium.
    """

    host: Host
    browser: bool
    attempted: Attempted = _NOTHING_YET


def decide_browser(facts: BrowserFacts) -> Decision:
    """Decide how to get a browser.

    Debian packages Chromium; Ubuntu packages it as a snap only, which is not for scripts.
    """
    if facts.browser:
        return None
    if facts.host.can_install and AptInstall not in facts.attempted:
        return AptInstall(
            packages=("fonts-dejavu-core",),
            optional=("chromium",),
            why="integration tests look at the local AzureML's page in a headless browser",
        )
    return Blocked(
        problem="the integration tests need Chromium or Google Chrome",
        remedy="sudo apt-get install chromium (Debian), or put the `google-chrome` of https://www.google.com/chrome/ on PATH"
        if facts.host.apt
        else "install Chromium or Google Chrome, or name it: AML_TRAIN_BROWSER=/path/to/chrome",
    )
