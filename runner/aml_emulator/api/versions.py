"""The api-version that Azure Resource Manager requires, and its refusals."""

from __future__ import annotations

import re

from aml_emulator.api.errors import ServiceError

FORM = re.compile(r"\d{4}-\d{2}-\d{2}(-[a-z]+)?")

PROVIDER = "/providers/microsoft.machinelearningservices/"

VERSIONS = (
    "2018-11-19",
    "2019-05-01",
    "2019-06-01",
    "2019-11-01",
    "2020-01-01",
    "2020-02-02",
    "2020-02-18-preview",
    "2020-03-01",
    "2020-04-01",
    "2020-05-01-preview",
    "2020-05-15-preview",
    "2020-06-01",
    "2020-08-01",
    "2020-09-01-preview",
    "2020-09-01-dataplanepreview",
    "2021-01-01",
    "2021-03-01-preview",
    "2021-04-01",
    "2021-07-01",
    "2021-10-01",
    "2021-10-01-dataplanepreview",
    "2022-01-01-preview",
    "2022-02-01-preview",
    "2022-05-01",
    "2022-06-01-preview",
    "2022-10-01",
    "2022-10-01-preview",
    "2022-12-01-preview",
    "2023-02-01-preview",
    "2023-04-01",
    "2023-04-01-preview",
    "2023-06-01-preview",
    "2023-08-01-preview",
    "2023-10-01",
    "2024-01-01-preview",
    "2024-04-01",
    "2024-04-01-preview",
    "2024-07-01-preview",
    "2024-10-01",
    "2024-10-01-preview",
    "2025-01-01-preview",
    "2025-04-01",
    "2025-04-01-preview",
    "2025-06-01",
    "2025-07-01-preview",
    "2025-09-01",
    "2025-10-01-preview",
    "2025-12-01",
    "2026-05-01-preview",
)
"""Versions of Microsoft.MachineLearningServices: those of its public REST reference
(https://learn.microsoft.com/rest/api/azureml) and those that released clients send. The emulator answers all alike."""


def check(path: str, version: str | None) -> None:
    """Return if a request to Azure Resource Manager names a version that there is.

    Of other providers than AzureML's, whose versions are not kept here, the form alone is checked.

    Args:
        version: its ``api-version``; None if there is none.

    Raises:
        ServiceError: 400, with Azure's codes.
    """
    if not version:
        raise ServiceError(
            400,
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        )
    # The last provider answers: a resource may have resources of another one, such as its permissions.
    own = PROVIDER in path.lower() and f"/providers/{path.lower().rpartition('/providers/')[2]}".startswith(PROVIDER)
    if FORM.fullmatch(version) is None or (own and version not in VERSIONS):
        known = f" The supported versions are '{','.join(reversed(VERSIONS))}'." if own else ""
        raise ServiceError(
            400,
            "InvalidApiVersionParameter",
            f"The api-version '{version}' is invalid.{known}",
        )
