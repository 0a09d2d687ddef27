"""The version, and the user agent of all our HTTP clients.

A leaf, since it is needed before requests.
"""

from __future__ import annotations

from typing import Final

__version__ = "0.1.0"

#: Product and version (RFC 9110, 10.1.5). azure-core puts it before its own
#: (https://azure.github.io/azure-sdk/general_azurecore.html#telemetry-policy, at most 24 characters).
PRODUCT: Final = f"aml-train/{__version__}"


REPOSITORY: Final[str] = ""
"""``OWNER/NAME`` of the action's repository on GitHub; empty in a version that is not published."""

MAJOR: Final = "v1"
"""The tag that follows the newest release with the same interface."""

REGISTRY: Final = "ghcr.io"
"""The registry of the published images."""


def action_reference(repository: str = REPOSITORY) -> str | None:
    """Return the value of ``uses:`` for the action; None if it is not published."""
    return f"{repository}@{MAJOR}" if repository else None


def emulator_image(version: str, repository: str = REPOSITORY) -> str:
    """Return the name of the local AzureML's image.

    The name of a version that is not published has no registry: such an image is built, never pulled.
    """
    place = f"{REGISTRY}/{repository.lower()}" if repository else "aml-train"
    return f"{place}-emulator:{version}"
