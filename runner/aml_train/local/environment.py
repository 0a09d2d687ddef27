"""The variables by which unmodified Azure SDKs reach the local AzureML."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import certifi
import platformdirs

from aml_train.core.errors import InvalidError
from aml_train.local.settings import EmulatorInfo

CA_VARIABLES: Final = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
"""Variables by which requests, OpenSSL and curl find CAs."""

CLOUD_HOSTS: Final = ("azure.com", "azureml.ms", "microsoftonline.com", "windows.net", "azurecr.io")
"""Hosts that the local AzureML answers for, with everything below them."""

_SYSTEM_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
"""CA bundles of Debian, Fedora and macOS, for Pythons with a separate OpenSSL."""

_MARK: Final = "# What follows was added by aml-train: the CA of a local AzureML."


def client_environment(
    info: EmulatorInfo, base_environment: Mapping[str, str], *, cache: Path | None = None
) -> dict[str, str]:
    """Return the variables to add to *base_environment*; write their CA bundle.

    Args:
        info: a running local AzureML.
        base_environment: NO_PROXY and the CA bundle in use are taken over from it.
        cache: the folder for the CA bundle; the user's cache by default.

    Raises:
        InvalidError: the CA bundle in use cannot be read, or ours not be written.
    """
    proxy = f"http://{info.host}:{info.port}"
    direct = no_proxy(base_environment)
    bundle = str(
        write_ca_bundle(
            info, base_environment, cache or Path(platformdirs.user_cache_dir("aml-train"), "emulator", info.name)
        )
    )
    return {
        "HTTPS_PROXY": proxy,
        "https_proxy": proxy,
        "NO_PROXY": direct,
        "no_proxy": direct,
        **dict.fromkeys(CA_VARIABLES, bundle),
        "AZURE_TENANT_ID": info.tenant_id,
        "AZURE_CLIENT_ID": info.client_id,
        "AZURE_CLIENT_SECRET": info.client_secret,
        "AZURE_SUBSCRIPTION_ID": info.subscription_id,
        "AML_RESOURCE_GROUP": info.resource_group,
        "AML_WORKSPACE": info.workspace,
    }


def no_proxy(base_environment: Mapping[str, str]) -> str:
    """Return the hosts to reach without a proxy: loopback and the user's.

    Patterns that include hosts of Azure are left out: they would bypass the local AzureML.
    """
    wanted = ["localhost", "127.0.0.1", "::1"]
    for name in ("NO_PROXY", "no_proxy"):
        wanted += [host.strip() for host in base_environment.get(name, "").split(",")]
    return ",".join(dict.fromkeys(host for host in wanted if host and host != "*" and not _of_cloud(host)))


def _of_cloud(pattern: str) -> bool:
    host = pattern.lstrip("*.").lower()
    return any(host == cloud or host.endswith(f".{cloud}") or cloud.endswith(f".{host}") for cloud in CLOUD_HOSTS)


def write_ca_bundle(info: EmulatorInfo, base_environment: Mapping[str, str], folder: Path) -> Path:
    """Write the CAs in use and the local AzureML's to a bundle; return its path.

    The file is replaced at once or left as it is where nothing changed; everybody may read it.

    Raises:
        InvalidError: the CA bundle in use cannot be read, or ours not be written.
    """
    content = f"{_own_cas(base_environment).rstrip()}\n\n{_MARK}\n{info.ca_pem.strip()}\n"
    return _write_public(folder / "ca-bundle.pem", content)


def _write_public(path: Path, content: str) -> Path:
    """Replace a file atomically, readable by all users; leave an equal one."""
    try:
        if path.exists() and path.read_text(encoding="utf-8") == content:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.stem}-", delete=False
        ) as file:
            file.write(content)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        raise InvalidError(
            f"{path}, with the local AzureML's CA, cannot be written: {error.strerror or error}",
            hint="Set XDG_CACHE_HOME.",
        ) from error
    return path


def _own_cas(base_environment: Mapping[str, str]) -> str:
    """Return the CAs in use, in PEM, without any that an earlier call of ours added."""
    name = next((name for name in CA_VARIABLES if base_environment.get(name)), None)
    path = base_environment[name] if name else _default_bundle()
    try:
        return Path(path).read_text(encoding="utf-8").partition(_MARK)[0]
    except (OSError, UnicodeDecodeError) as error:
        where = f"{name}={path}" if name else path
        raise InvalidError(f"The CA bundle {where} cannot be read: {error}", hint="Set it to a PEM file.") from error


def _default_bundle() -> str:
    """Return the system's CA bundle, or that of certifi where Python finds none."""
    for path in (ssl.get_default_verify_paths().openssl_cafile, *_SYSTEM_BUNDLES):
        if os.access(path, os.R_OK):
            return path

    return certifi.where()
