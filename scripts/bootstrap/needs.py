"""The needs of each profile, and the loop that meets them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Final

from scripts.bootstrap import daemon, environment, probes, services, sources
from scripts.bootstrap.commands import BootstrapError, CommandFailedError, Shell, last_line
from scripts.bootstrap.decisions import (
    Attempted,
    BaseImageFacts,
    Blocked,
    BrowserFacts,
    Decision,
    EmulatorImageFacts,
    EngineFacts,
    Host,
    PullImage,
    ServiceFacts,
    StartDaemon,
    Step,
    VenvFacts,
    decide_base_image,
    decide_browser,
    decide_client_v1,
    decide_emulator_image,
    decide_engine,
    decide_services,
    decide_venv,
)
from scripts.bootstrap.steps import perform

BASE_IMAGE: Final = "python:3.11-slim-bookworm"
# The needs of each ``--for``, in the order in which they depend on one another.
PROFILES: Final[Mapping[str, tuple[str, ...]]] = {
    "venv": ("venv",),
    "demo": ("venv", "engine", "base-image", "emulator-image"),
    "demo-v1": ("client-v1", "engine", "base-image", "emulator-image"),
    "tests": ("venv", "client-v1", "engine", "base-image", "emulator-image", "services", "browser"),
    "bench": ("venv", "engine", "base-image", "emulator-image", "services"),
    "services": ("client-v1", "engine", "base-image", "emulator-image", "services", "browser"),
    "client-v1": ("client-v1",),
    "emulator-image": ("engine", "base-image", "emulator-image"),
}


class Machine:
    """This machine and this checkout, brought closer to ready need by need."""

    def __init__(self, shell: Shell, host: Host, perform_step: Callable[[Step, Shell, Host], None] = perform) -> None:
        self._shell = shell
        self._host = host
        self._perform = perform_step
        self._pull_error: str | None = None
        self._docker: str | None = None

    def satisfy(self, need: str) -> int:
        """Bring one need about, and return how many steps it took.

        Raises:
            BootstrapError: if a step fails, or only a person can continue; the text says how.
        """
        attempted: Attempted = frozenset()
        count = 0
        while True:
            decision = self._decide(need, attempted)
            if decision is None:
                return count
            if isinstance(decision, Blocked):
                raise BootstrapError(f"{decision.problem}\n  → {decision.remedy}")
            self._carry_out(decision)
            attempted |= {type(decision)}
            count += 1

    def _carry_out(self, step: Step) -> None:
        self._shell.say(f"==> {step}")
        begin = time.monotonic()
        try:
            self._perform(step, self._shell, self._host)
        except CommandFailedError as error:
            if not isinstance(step, PullImage):
                raise
            self._pull_error = last_line(error.output) or str(error).splitlines()[0]
            self._shell.say(f"    it failed: {self._pull_error}")
        else:
            self._shell.say(f"    done in {time.monotonic() - begin:.1f} s")

    def _decide(self, need: str, attempted: Attempted) -> Decision:
        root, host = self._shell.root, self._host
        match need:
            case "venv":
                return decide_venv(
                    VenvFacts(
                        host=host,
                        up_to_date=environment.is_up_to_date(root, host.python),
                        can_make_venvs=probes.can_make_venvs(),
                        attempted=attempted,
                    )
                )
            case "client-v1":
                ready = environment.has_client_v1(root, host.python)
                return decide_client_v1(up_to_date=ready, attempted=attempted)
            case "engine":
                return decide_engine(self._engine_facts(attempted))
            case "base-image":
                return decide_base_image(
                    BaseImageFacts(
                        host=host,
                        reference=BASE_IMAGE,
                        present=self._labels(BASE_IMAGE) is not None,
                        pull_error=self._pull_error,
                        debootstrap=shutil.which("debootstrap") is not None,
                        attempted=attempted,
                    )
                )
            case "emulator-image":
                reference = sources.emulator_reference(root)
                return decide_emulator_image(
                    EmulatorImageFacts(
                        reference=reference,
                        built_from=(self._labels(reference) or {}).get(sources.SOURCE_LABEL),
                        source=sources.emulator_source(root),
                        attempted=attempted,
                    )
                )
            case "services":
                azurite, devcontainers = services.has_azurite(root), services.has_devcontainers(root)
                return decide_services(
                    ServiceFacts(
                        host=host,
                        registry=shutil.which("docker-registry") is not None,
                        azurite=azurite,
                        node=None if azurite and devcontainers else services.installed_node(root),
                        devcontainers=devcontainers,
                        attempted=attempted,
                    )
                )
            case "browser":
                browser = probes.find_browser(os.environ.get("AML_TRAIN_BROWSER"))
                return decide_browser(BrowserFacts(host=host, browser=browser is not None, attempted=attempted))
        raise ValueError(f"{need!r} is none of the needs")

    def _engine_facts(self, attempted: Attempted) -> EngineFacts:
        docker_host = os.environ.get("DOCKER_HOST")
        ping = probes.ping_engine(docker_host)
        clis = probes.find_docker_clis() if ping.answers else []
        self._docker = clis[0].path if clis else None
        return EngineFacts(
            host=self._host,
            answers=ping.answers,
            error=ping.error,
            forbidden=ping.forbidden,
            docker_host=docker_host,
            daemon_installed=shutil.which("dockerd") is not None,
            daemon_pid=None if ping.answers else probes.find_daemon_process(),
            buildkit=any(cli.buildkit for cli in clis),
            log_tail=daemon.log_tail() if StartDaemon in attempted else "",
            attempted=attempted,
        )

    def _labels(self, reference: str) -> dict[str, str] | None:
        return probes.image_labels(self._docker or "docker", reference)
