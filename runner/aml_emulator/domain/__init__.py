"""The decisions of the service: no HTTP, and no state but the workspace's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_emulator.lazy import lazily

if TYPE_CHECKING:
    from aml_emulator.domain.artifacts import OF_RUNS as OF_RUNS
    from aml_emulator.domain.artifacts import Artifacts as Artifacts
    from aml_emulator.domain.artifacts import File as File
    from aml_emulator.domain.artifacts import RunArtifacts as RunArtifacts
    from aml_emulator.domain.artifacts import UploadedArtifacts as UploadedArtifacts
    from aml_emulator.domain.artifacts import check_paths as check_paths
    from aml_emulator.domain.assets import ASSET_CONTAINER as ASSET_CONTAINER
    from aml_emulator.domain.assets import ASSET_KINDS as ASSET_KINDS
    from aml_emulator.domain.assets import ASSET_VERSIONS as ASSET_VERSIONS
    from aml_emulator.domain.assets import container_of as container_of
    from aml_emulator.domain.assets import containers_of as containers_of
    from aml_emulator.domain.assets import delete_asset as delete_asset
    from aml_emulator.domain.assets import delete_version as delete_version
    from aml_emulator.domain.assets import known_version as known_version
    from aml_emulator.domain.assets import no_container as no_container
    from aml_emulator.domain.assets import put_container as put_container
    from aml_emulator.domain.assets import put_version as put_version
    from aml_emulator.domain.assets import start_upload as start_upload
    from aml_emulator.domain.assets import versions_of as versions_of
    from aml_emulator.domain.clusters import LOW_PRIORITY as LOW_PRIORITY
    from aml_emulator.domain.clusters import check_cluster as check_cluster
    from aml_emulator.domain.clusters import cluster_summaries as cluster_summaries
    from aml_emulator.domain.clusters import cluster_view as cluster_view
    from aml_emulator.domain.clusters import create_default_cluster as create_default_cluster
    from aml_emulator.domain.clusters import family_title as family_title
    from aml_emulator.domain.clusters import stored_cluster as stored_cluster
    from aml_emulator.domain.components import shown_component as shown_component
    from aml_emulator.domain.compute_instances import COMPUTE_INSTANCE as COMPUTE_INSTANCE
    from aml_emulator.domain.compute_instances import NOT_MADE_YET as NOT_MADE_YET
    from aml_emulator.domain.compute_instances import created_instance as created_instance
    from aml_emulator.domain.compute_instances import instance_view as instance_view
    from aml_emulator.domain.compute_instances import is_instance as is_instance
    from aml_emulator.domain.compute_instances import operate as operate
    from aml_emulator.domain.curated_images import CuratedImages as CuratedImages
    from aml_emulator.domain.data_map import DataMap as DataMap
    from aml_emulator.domain.datasets import dataflow_of as dataflow_of
    from aml_emulator.domain.datasets import dataset_id as dataset_id
    from aml_emulator.domain.datasets import datasets_read_by as datasets_read_by
    from aml_emulator.domain.datasets import find_dataset as find_dataset
    from aml_emulator.domain.datasets import listed_datasets as listed_datasets
    from aml_emulator.domain.datasets import register_dataset as register_dataset
    from aml_emulator.domain.datasets import save_dataset as save_dataset
    from aml_emulator.domain.datasets import unregister_dataset as unregister_dataset
    from aml_emulator.domain.datastores import BLOB_DATASTORE as BLOB_DATASTORE
    from aml_emulator.domain.datastores import DATASTORE_PLACES as DATASTORE_PLACES
    from aml_emulator.domain.datastores import DATASTORE_SECRETS as DATASTORE_SECRETS
    from aml_emulator.domain.datastores import FILE_DATASTORE as FILE_DATASTORE
    from aml_emulator.domain.datastores import STORAGE_ENDPOINT as STORAGE_ENDPOINT
    from aml_emulator.domain.datastores import STORAGE_PROTOCOL as STORAGE_PROTOCOL
    from aml_emulator.domain.datastores import DatastoreSpec as DatastoreSpec
    from aml_emulator.domain.datastores import credentials_of as credentials_of
    from aml_emulator.domain.datastores import delete_datastore as delete_datastore
    from aml_emulator.domain.datastores import is_default_datastore as is_default_datastore
    from aml_emulator.domain.datastores import register_datastore as register_datastore
    from aml_emulator.domain.environment_builds import ACTIVE_BUILD as ACTIVE_BUILD
    from aml_emulator.domain.environment_builds import EnvironmentBuilds as EnvironmentBuilds
    from aml_emulator.domain.environments import environment_definition as environment_definition
    from aml_emulator.domain.environments import environment_of_run as environment_of_run
    from aml_emulator.domain.environments import lower_field_names as lower_field_names
    from aml_emulator.domain.environments import plain_definition as plain_definition
    from aml_emulator.domain.environments import register_environment as register_environment
    from aml_emulator.domain.errors import ConflictError as ConflictError
    from aml_emulator.domain.errors import DomainError as DomainError
    from aml_emulator.domain.errors import InvalidError as InvalidError
    from aml_emulator.domain.errors import NotFoundError as NotFoundError
    from aml_emulator.domain.errors import NotSupportedError as NotSupportedError
    from aml_emulator.domain.jobs.check import instance_count as instance_count
    from aml_emulator.domain.jobs.composed import NODE_ID as NODE_ID
    from aml_emulator.domain.jobs.composed import PIPELINE as PIPELINE
    from aml_emulator.domain.jobs.composed import SWEEP as SWEEP
    from aml_emulator.domain.jobs.composed import composed_kind as composed_kind
    from aml_emulator.domain.jobs.composed import is_child as is_child
    from aml_emulator.domain.jobs.compute import DEFAULT_TIER as DEFAULT_TIER
    from aml_emulator.domain.jobs.compute import compute_name as compute_name
    from aml_emulator.domain.jobs.compute import is_low_priority as is_low_priority
    from aml_emulator.domain.jobs.compute import is_serverless as is_serverless
    from aml_emulator.domain.jobs.compute import shown_compute as shown_compute
    from aml_emulator.domain.jobs.docker_args import size_bytes as size_bytes
    from aml_emulator.domain.jobs.from_runconfig import Dataset as Dataset
    from aml_emulator.domain.jobs.from_runconfig import check_runconfig as check_runconfig
    from aml_emulator.domain.jobs.from_runconfig import dataset_references as dataset_references
    from aml_emulator.domain.jobs.from_runconfig import job_of_runconfig as job_of_runconfig
    from aml_emulator.domain.jobs.output_assets import output_asset as output_asset
    from aml_emulator.domain.jobs.service import JobService as JobService
    from aml_emulator.domain.jobs.service import RunProgress as RunProgress
    from aml_emulator.domain.jobs.sweeps.runs import BEST as BEST
    from aml_emulator.domain.jobs.sweeps.runs import HYPERPARAMETERS as HYPERPARAMETERS
    from aml_emulator.domain.jobs.sweeps.runs import objective_of as objective_of
    from aml_emulator.domain.jobs.types import JOB_CHANGES as JOB_CHANGES
    from aml_emulator.domain.jobs.types import JOB_SHAPE as JOB_SHAPE
    from aml_emulator.domain.jobs.types import PIPELINE_SHAPE as PIPELINE_SHAPE
    from aml_emulator.domain.jobs.types import RUNCONFIG_SHAPE as RUNCONFIG_SHAPE
    from aml_emulator.domain.jobs.types import SWEEP_SHAPE as SWEEP_SHAPE
    from aml_emulator.domain.locations import AssetId as AssetId
    from aml_emulator.domain.locations import JobOutput as JobOutput
    from aml_emulator.domain.locations import parse_location as parse_location
    from aml_emulator.domain.metrics import RUN_NAME as RUN_NAME
    from aml_emulator.domain.metrics import SCALAR as SCALAR
    from aml_emulator.domain.metrics import kind_of_values as kind_of_values
    from aml_emulator.domain.metrics import log_to_run as log_to_run
    from aml_emulator.domain.metrics import log_values as log_values
    from aml_emulator.domain.metrics import logged_by as logged_by
    from aml_emulator.domain.metrics import metric_page as metric_page
    from aml_emulator.domain.metrics import value_names as value_names
    from aml_emulator.domain.metrics import values_of as values_of
    from aml_emulator.domain.models import ASSET_PREFIX as ASSET_PREFIX
    from aml_emulator.domain.models import MODEL_ASSETS as MODEL_ASSETS
    from aml_emulator.domain.models import aliases_of as aliases_of
    from aml_emulator.domain.models import create_model_asset as create_model_asset
    from aml_emulator.domain.models import delete_model as delete_model
    from aml_emulator.domain.models import locate_model as locate_model
    from aml_emulator.domain.models import model_artifact_prefix as model_artifact_prefix
    from aml_emulator.domain.models import own_model_fields as own_model_fields
    from aml_emulator.domain.models import patch_model as patch_model
    from aml_emulator.domain.models import register_model as register_model
    from aml_emulator.domain.registered_models import delete_alias as delete_alias
    from aml_emulator.domain.registered_models import delete_registered_version as delete_registered_version
    from aml_emulator.domain.registered_models import download_address as download_address
    from aml_emulator.domain.registered_models import known_model as known_model
    from aml_emulator.domain.registered_models import move_to_stage as move_to_stage
    from aml_emulator.domain.registered_models import newest_in_stages as newest_in_stages
    from aml_emulator.domain.registered_models import set_alias as set_alias
    from aml_emulator.domain.registered_models import stage_of as stage_of
    from aml_emulator.domain.registered_models import version_by_alias as version_by_alias
    from aml_emulator.domain.registries import REGISTRY_KINDS as REGISTRY_KINDS
    from aml_emulator.domain.registries import Registry as Registry
    from aml_emulator.domain.registries import all_registries as all_registries
    from aml_emulator.domain.registries import count_shared as count_shared
    from aml_emulator.domain.registries import create_registry as create_registry
    from aml_emulator.domain.registries import delete_registry as delete_registry
    from aml_emulator.domain.registries import find_registry as find_registry
    from aml_emulator.domain.registries import import_asset as import_asset
    from aml_emulator.domain.registries import known_registry as known_registry
    from aml_emulator.domain.registries import put_shared as put_shared
    from aml_emulator.domain.registries import put_shared_container as put_shared_container
    from aml_emulator.domain.registries import shared_container as shared_container
    from aml_emulator.domain.registries import shared_containers as shared_containers
    from aml_emulator.domain.registries import shared_version as shared_version
    from aml_emulator.domain.registries import shared_versions as shared_versions
    from aml_emulator.domain.registry_tasks import RUN_REQUEST as RUN_REQUEST
    from aml_emulator.domain.registry_tasks import RegistryRun as RegistryRun
    from aml_emulator.domain.registry_tasks import RegistryTasks as RegistryTasks
    from aml_emulator.domain.runs import RUN_SHAPE as RUN_SHAPE
    from aml_emulator.domain.runs import known_experiment as known_experiment
    from aml_emulator.domain.runs import known_job as known_job
    from aml_emulator.domain.runs import known_run as known_run
    from aml_emulator.domain.runs import put_run as put_run
    from aml_emulator.domain.snapshots import NO_SNAPSHOT as NO_SNAPSHOT
    from aml_emulator.domain.snapshots import create_snapshot as create_snapshot
    from aml_emulator.domain.snapshots import snapshot_archive_url as snapshot_archive_url
    from aml_emulator.domain.snapshots import snapshot_id_of as snapshot_id_of
    from aml_emulator.domain.snapshots import snapshot_upload_urls as snapshot_upload_urls
    from aml_emulator.domain.vm_sizes import LOW_PRIORITY_FAMILY as LOW_PRIORITY_FAMILY
    from aml_emulator.domain.vm_sizes import Quotas as Quotas
    from aml_emulator.domain.vm_sizes import VmSize as VmSize
    from aml_emulator.domain.vm_sizes import parse_quotas as parse_quotas
    from aml_emulator.domain.vm_sizes import size_named as size_named
    from aml_emulator.domain.vm_sizes import sizes as sizes
    from aml_emulator.domain.workspace import REUSED_RUN as REUSED_RUN
    from aml_emulator.domain.workspace import ShownStates as ShownStates
    from aml_emulator.domain.workspace import Workspace as Workspace

_MODULES = {
    "OF_RUNS": "artifacts",
    "Artifacts": "artifacts",
    "File": "artifacts",
    "RunArtifacts": "artifacts",
    "UploadedArtifacts": "artifacts",
    "check_paths": "artifacts",
    "ASSET_CONTAINER": "assets",
    "ASSET_KINDS": "assets",
    "ASSET_VERSIONS": "assets",
    "container_of": "assets",
    "containers_of": "assets",
    "delete_asset": "assets",
    "delete_version": "assets",
    "known_version": "assets",
    "no_container": "assets",
    "put_container": "assets",
    "put_version": "assets",
    "start_upload": "assets",
    "versions_of": "assets",
    "LOW_PRIORITY": "clusters",
    "check_cluster": "clusters",
    "cluster_summaries": "clusters",
    "cluster_view": "clusters",
    "create_default_cluster": "clusters",
    "family_title": "clusters",
    "stored_cluster": "clusters",
    "COMPUTE_INSTANCE": "compute_instances",
    "NOT_MADE_YET": "compute_instances",
    "created_instance": "compute_instances",
    "instance_view": "compute_instances",
    "is_instance": "compute_instances",
    "operate": "compute_instances",
    "shown_component": "components",
    "CuratedImages": "curated_images",
    "DataMap": "data_map",
    "dataflow_of": "datasets",
    "dataset_id": "datasets",
    "datasets_read_by": "datasets",
    "find_dataset": "datasets",
    "listed_datasets": "datasets",
    "register_dataset": "datasets",
    "save_dataset": "datasets",
    "unregister_dataset": "datasets",
    "BLOB_DATASTORE": "datastores",
    "DATASTORE_PLACES": "datastores",
    "DATASTORE_SECRETS": "datastores",
    "FILE_DATASTORE": "datastores",
    "STORAGE_ENDPOINT": "datastores",
    "STORAGE_PROTOCOL": "datastores",
    "DatastoreSpec": "datastores",
    "credentials_of": "datastores",
    "delete_datastore": "datastores",
    "is_default_datastore": "datastores",
    "register_datastore": "datastores",
    "ACTIVE_BUILD": "environment_builds",
    "EnvironmentBuilds": "environment_builds",
    "environment_definition": "environments",
    "environment_of_run": "environments",
    "lower_field_names": "environments",
    "plain_definition": "environments",
    "register_environment": "environments",
    "ConflictError": "errors",
    "DomainError": "errors",
    "InvalidError": "errors",
    "size_bytes": "jobs.docker_args",
    "NotFoundError": "errors",
    "NotSupportedError": "errors",
    "instance_count": "jobs.check",
    "DEFAULT_TIER": "jobs.compute",
    "is_low_priority": "jobs.compute",
    "is_serverless": "jobs.compute",
    "compute_name": "jobs.compute",
    "shown_compute": "jobs.compute",
    "Dataset": "jobs.from_runconfig",
    "check_runconfig": "jobs.from_runconfig",
    "dataset_references": "jobs.from_runconfig",
    "job_of_runconfig": "jobs.from_runconfig",
    "JobService": "jobs.service",
    "RunProgress": "jobs.service",
    "output_asset": "jobs.output_assets",
    "NODE_ID": "jobs.composed",
    "PIPELINE": "jobs.composed",
    "SWEEP": "jobs.composed",
    "composed_kind": "jobs.composed",
    "is_child": "jobs.composed",
    "BEST": "jobs.sweeps.runs",
    "HYPERPARAMETERS": "jobs.sweeps.runs",
    "objective_of": "jobs.sweeps.runs",
    "JOB_CHANGES": "jobs.types",
    "JOB_SHAPE": "jobs.types",
    "PIPELINE_SHAPE": "jobs.types",
    "SWEEP_SHAPE": "jobs.types",
    "RUNCONFIG_SHAPE": "jobs.types",
    "AssetId": "locations",
    "JobOutput": "locations",
    "parse_location": "locations",
    "RUN_NAME": "metrics",
    "SCALAR": "metrics",
    "kind_of_values": "metrics",
    "log_to_run": "metrics",
    "log_values": "metrics",
    "logged_by": "metrics",
    "metric_page": "metrics",
    "value_names": "metrics",
    "values_of": "metrics",
    "ASSET_PREFIX": "models",
    "MODEL_ASSETS": "models",
    "aliases_of": "models",
    "create_model_asset": "models",
    "delete_model": "models",
    "locate_model": "models",
    "model_artifact_prefix": "models",
    "own_model_fields": "models",
    "patch_model": "models",
    "register_model": "models",
    "delete_alias": "registered_models",
    "delete_registered_version": "registered_models",
    "download_address": "registered_models",
    "known_model": "registered_models",
    "move_to_stage": "registered_models",
    "newest_in_stages": "registered_models",
    "set_alias": "registered_models",
    "stage_of": "registered_models",
    "version_by_alias": "registered_models",
    "REGISTRY_KINDS": "registries",
    "Registry": "registries",
    "all_registries": "registries",
    "count_shared": "registries",
    "create_registry": "registries",
    "delete_registry": "registries",
    "find_registry": "registries",
    "import_asset": "registries",
    "known_registry": "registries",
    "put_shared": "registries",
    "put_shared_container": "registries",
    "shared_container": "registries",
    "shared_containers": "registries",
    "shared_version": "registries",
    "shared_versions": "registries",
    "RUN_REQUEST": "registry_tasks",
    "RegistryRun": "registry_tasks",
    "RegistryTasks": "registry_tasks",
    "RUN_SHAPE": "runs",
    "known_experiment": "runs",
    "known_job": "runs",
    "known_run": "runs",
    "put_run": "runs",
    "NO_SNAPSHOT": "snapshots",
    "create_snapshot": "snapshots",
    "snapshot_archive_url": "snapshots",
    "snapshot_id_of": "snapshots",
    "snapshot_upload_urls": "snapshots",
    "LOW_PRIORITY_FAMILY": "vm_sizes",
    "Quotas": "vm_sizes",
    "VmSize": "vm_sizes",
    "parse_quotas": "vm_sizes",
    "size_named": "vm_sizes",
    "sizes": "vm_sizes",
    "REUSED_RUN": "workspace",
    "ShownStates": "workspace",
    "Workspace": "workspace",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
