"""The local AzureML in Azure's place: reached under Azure's own host names, with nothing but proxy and CA variables set."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import requests

from tests.support.docker_bridge import bridge_address
from tests.support.oidc_stand_in import ISSUER, Provider

if TYPE_CHECKING:
    from tests.e2e.conftest import Local

_ROUTE = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
_TRUST = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")


@dataclass(frozen=True)
class Azure:
    """What a workflow knows of its workspace, and the way there."""

    local: Local

    def admin(self, method: str, path: str, **query: str) -> dict[str, Any]:
        """Ask the emulator's own interface."""
        port = self.local.environment["AML_TRAIN_EMULATOR_PORT"]
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(
                method, f"http://127.0.0.1:{port}/_emulator/{path}?{urlencode(query)}", timeout=60
            )
        assert answer.ok, answer.text
        value: dict[str, Any] = answer.json()
        return value

    def trust(self, provider: Provider, **changes: str) -> None:
        """Trust the tokens of *provider*, and no others."""
        self.admin("DELETE", "federated-credentials")
        known = {"issuer": ISSUER, "subject": provider.subject, "keys": provider.keys}
        self.admin("POST", "federated-credentials", **{**known, **changes})

    def variables(self, bundle: Path, seen: str, *, host: str | None = None) -> dict[str, str]:
        """Return the way there as `aml-train emulator env` tells it: proxy and CA variables, nobody's credentials.

        Args:
            bundle: where the CA bundle is written.
            seen: how the step sees that file.
            host: proxy as the step reaches it; None for what `emulator env` says.
        """
        lines = shlex.split(self.local.command("emulator", "env"), comments=False)
        told = dict(word.split("=", 1) for word in lines if "=" in word)
        bundle.write_text(Path(told["REQUESTS_CA_BUNDLE"]).read_text())
        route = {name: told[name] for name in _ROUTE}
        if host is not None:
            route |= dict.fromkeys(("HTTPS_PROXY", "https_proxy"), host)
        return {**route, **dict.fromkeys(_TRUST, seen)}

    def target(self) -> dict[str, str]:
        """Return the target as aml-train.yml has it."""
        info = self.admin("GET", "info")
        return {
            "subscription-id": info["subscription_id"],
            "resource-group": info["resource_group"],
            "workspace": info["workspace"],
            "compute": info["compute"],
            # The engine reaches this machine's registry by another name than Azure's.
            "push-registry": f"localhost:{self.local.environment['AML_TRAIN_EMULATOR_REGISTRY_PORT']}",
        }

    def inputs(self) -> dict[str, str]:
        """Return what a workflow's step says `with:` OIDC. There is no secret in it."""
        info, target = self.admin("GET", "info"), self.target()
        push = target.pop("push-registry")
        ids = {"client-id": info["client_id"], "tenant-id": info["tenant_id"]}
        return {"target": "azure", **ids, **target, "set": f"targets.azure.push-registry={push}"}


def inspect(*words: str) -> Any:
    """Return what `docker inspect` says of one thing."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)[0]


def bridge() -> str:
    """Return this machine's address on the engine's default network, which every container reaches."""
    return bridge_address(inspect("network", "inspect", "bridge"))


def address_of(container: str, network: str) -> str:
    """Return a container's address on a network."""
    address: str = inspect("inspect", container)["NetworkSettings"]["Networks"][network]["IPAddress"]
    return address
