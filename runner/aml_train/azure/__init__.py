"""Azure's adapters: sign-in, workspace, registry, computes, storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.azure.acr import location_of as location_of
    from aml_train.azure.acr import logins_by_identity as logins_by_identity
    from aml_train.azure.acr import password_of as password_of
    from aml_train.azure.acr_tasks import build_service as build_service
    from aml_train.azure.blob.address import DatastorePath as DatastorePath
    from aml_train.azure.blob.address import JobOutput as JobOutput
    from aml_train.azure.blob.address import LocalPath as LocalPath
    from aml_train.azure.blob.address import Remote as Remote
    from aml_train.azure.blob.address import parse_address as parse_address
    from aml_train.azure.blob.datastores import DataWorkspace as DataWorkspace
    from aml_train.azure.blob.datastores import asset_type as asset_type
    from aml_train.azure.blob.datastores import workspace_of as workspace_of
    from aml_train.azure.blob.lease import AzureLeases as AzureLeases
    from aml_train.azure.blob.operations import Place as Place
    from aml_train.azure.blob.places import fetch_place as fetch_place
    from aml_train.azure.blob.places import job_files as job_files
    from aml_train.azure.blob.places import model_place as model_place
    from aml_train.azure.blob.storage import Entry as Entry
    from aml_train.azure.blob.transfer import Tally as Tally
    from aml_train.azure.browse import JobFilter as JobFilter
    from aml_train.azure.browse import JobRow as JobRow
    from aml_train.azure.browse import describe_job as describe_job
    from aml_train.azure.browse import list_jobs as list_jobs
    from aml_train.azure.browse import view_job as view_job
    from aml_train.azure.clouds import cloud_named as cloud_named
    from aml_train.azure.compute import ensure_cluster as ensure_cluster
    from aml_train.azure.credentials import SECRET_VARIABLES as SECRET_VARIABLES
    from aml_train.azure.credentials import Assertion as Assertion
    from aml_train.azure.credentials import KeptTokens as KeptTokens
    from aml_train.azure.doctor.checks import azure_checks as azure_checks
    from aml_train.azure.doctor.probe import Wanted as Wanted
    from aml_train.azure.environments import find_environment_image as find_environment_image
    from aml_train.azure.http import HttpSettings as HttpSettings
    from aml_train.azure.http import WorkspaceId as WorkspaceId
    from aml_train.azure.http import read_answer as read_answer
    from aml_train.azure.image_uses import read_image_uses as read_image_uses
    from aml_train.azure.models import AzureCatalogue as AzureCatalogue
    from aml_train.azure.names import azure_names as azure_names
    from aml_train.azure.names import find_workspace as find_workspace
    from aml_train.azure.passports import AzurePassports as AzurePassports
    from aml_train.azure.results import SORT_KEYS as SORT_KEYS
    from aml_train.azure.results import JobOrder as JobOrder
    from aml_train.azure.results import read_results as read_results
    from aml_train.azure.results import select_rows as select_rows
    from aml_train.azure.results import sort_rows as sort_rows
    from aml_train.azure.sdk_v2 import AzureV2 as AzureV2
    from aml_train.azure.sign_in import Fetched as Fetched
    from aml_train.azure.sign_in import SignIn as SignIn
    from aml_train.azure.sign_in import sign_in_to_azure as sign_in_to_azure
    from aml_train.azure.sign_in import without_secrets as without_secrets
    from aml_train.azure.target import AZURE_PACE as AZURE_PACE
    from aml_train.azure.target import connect_azure as connect_azure
    from aml_train.azure.target import login_server as login_server
    from aml_train.azure.target import open_azure as open_azure
    from aml_train.azure.target import settings_for as settings_for
    from aml_train.azure.workspace import AzureRest as AzureRest

_MODULES = {
    "location_of": "acr",
    "logins_by_identity": "acr",
    "password_of": "acr",
    "DatastorePath": "blob.address",
    "JobOutput": "blob.address",
    "LocalPath": "blob.address",
    "Remote": "blob.address",
    "parse_address": "blob.address",
    "DataWorkspace": "blob.datastores",
    "asset_type": "blob.datastores",
    "workspace_of": "blob.datastores",
    "job_files": "blob.places",
    "fetch_place": "blob.places",
    "model_place": "blob.places",
    "AzureLeases": "blob.lease",
    "Place": "blob.operations",
    "Entry": "blob.storage",
    "Tally": "blob.transfer",
    "JobFilter": "browse",
    "JobRow": "browse",
    "describe_job": "browse",
    "list_jobs": "browse",
    "view_job": "browse",
    "SORT_KEYS": "results",
    "JobOrder": "results",
    "select_rows": "results",
    "read_results": "results",
    "sort_rows": "results",
    "build_service": "acr_tasks",
    "cloud_named": "clouds",
    "ensure_cluster": "compute",
    "azure_checks": "doctor.checks",
    "Wanted": "doctor.probe",
    "WorkspaceId": "http",
    "read_answer": "http",
    "AzureCatalogue": "models",
    "azure_names": "names",
    "find_workspace": "names",
    "AzurePassports": "passports",
    "AzureV2": "sdk_v2",
    "Assertion": "credentials",
    "SECRET_VARIABLES": "credentials",
    "KeptTokens": "credentials",
    "Fetched": "sign_in",
    "SignIn": "sign_in",
    "sign_in_to_azure": "sign_in",
    "without_secrets": "sign_in",
    "connect_azure": "target",
    "open_azure": "target",
    "settings_for": "target",
    "find_environment_image": "environments",
    "HttpSettings": "http",
    "AzureRest": "workspace",
    "read_image_uses": "image_uses",
    "AZURE_PACE": "target",
    "login_server": "target",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
