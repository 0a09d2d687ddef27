"""Modules that the clients and services of the world import when they need them."""

from __future__ import annotations

from typing import Final

#: Imported before any run: an import executes code, which the next run of the same interpreter would not repeat.
#: ``Outcome.late`` of a run lists what is missing; a test expects nothing.
LATE: Final = (
    "aml_train.azure.acr",
    "aml_train.azure.blob.lease",
    "aml_train.azure.code",
    "aml_train.azure.composed",
    "aml_train.azure.identity",
    "aml_train.azure.image_uses",
    "aml_train.azure.models",
    "aml_train.azure.run_metrics",
    "aml_train.azure.sdk_v2",
    "aml_train.azure.target",
    "aml_train.azure.workspace",
    "aml_train.cli.tables",
    "aml_train.image.dockerfile.in_build",
    "aml_train.image.ensure",
    "aml_train.jobs.logs.follow",
    "aml_train.jobs.logs.report",
    "aml_train.jobs.logs.report",
    "aml_train.jobs.watch",
    "_strptime",
    "azure.ai.ml._restclient.arm_ml_service",
    "azure.ai.ml._utils._http_utils",
    "azure.core.rest._http_response_impl",
    "azure.core.rest._requests_basic",
    "azure.identity",
    "azure.mgmt.core",
    "cryptography.x509",
    "curses",
    "encodings.ascii",
    "encodings.utf_8_sig",
    "IPython",
    "junitparser",
    "msal_extensions",
    "netrc",
    "pip_requirements_parser",
    "rich._emoji_replace",
    "rich.console",
    "stamina",
    "webbrowser",
    "xml.etree.cElementTree",
)
