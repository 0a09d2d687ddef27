"""The training image: render, address, build, push, and the record of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.image.base import BaseImages as BaseImages
    from aml_train.image.base import docker_login as docker_login
    from aml_train.image.base import docker_registries as docker_registries
    from aml_train.image.base import registry_route as registry_route
    from aml_train.image.base_files import ImageSettings as ImageSettings
    from aml_train.image.build.build import build_folder as build_folder
    from aml_train.image.build.build import write_context as write_context
    from aml_train.image.build_secrets import SECRET_PATH_VARIABLE as SECRET_PATH_VARIABLE
    from aml_train.image.build_secrets import WORKSPACE_VARIABLE as WORKSPACE_VARIABLE
    from aml_train.image.build_secrets import secret_access as secret_access
    from aml_train.image.builders.place import BuildPlace as BuildPlace
    from aml_train.image.builders.service import BuildService as BuildService
    from aml_train.image.builders.service import ServiceBuild as ServiceBuild
    from aml_train.image.collect import BaseResolver as BaseResolver
    from aml_train.image.collect import DriversReader as DriversReader
    from aml_train.image.collect import OsReader as OsReader
    from aml_train.image.collect import collect_inputs as collect_inputs
    from aml_train.image.collect import read_file as read_file
    from aml_train.image.collect import unresolved_base as unresolved_base
    from aml_train.image.disk import room_here as room_here
    from aml_train.image.ensure import ensure_image as ensure_image
    from aml_train.image.ensure import find_build as find_build
    from aml_train.image.ensure import find_image as find_image
    from aml_train.image.ensure import locate_image as locate_image
    from aml_train.image.inputs import BaseImage as BaseImage
    from aml_train.image.inputs import ImageInputs as ImageInputs
    from aml_train.image.leftovers import sweep_leftovers as sweep_leftovers
    from aml_train.image.make import build_and_probe as build_and_probe
    from aml_train.image.packages import read_packages as read_packages
    from aml_train.image.papers import PAPER_TYPES as PAPER_TYPES
    from aml_train.image.papers import SLSA_PROVENANCE as SLSA_PROVENANCE
    from aml_train.image.prune.execute import PruneOutcome as PruneOutcome
    from aml_train.image.prune.execute import PruneResult as PruneResult
    from aml_train.image.prune.execute import execute_prune as execute_prune
    from aml_train.image.prune.inventory import Inventory as Inventory
    from aml_train.image.prune.inventory import PrunePolicy as PrunePolicy
    from aml_train.image.prune.inventory import Use as Use
    from aml_train.image.prune.listing import read_entries as read_entries
    from aml_train.image.prune.plan import PrunePlan as PrunePlan
    from aml_train.image.prune.plan import plan_prune as plan_prune
    from aml_train.image.push import pull_image as pull_image
    from aml_train.image.push import release as release
    from aml_train.image.readiness.check import probe_image as probe_image
    from aml_train.image.readiness.facts import Facts as Facts
    from aml_train.image.readiness.judge import judge_facts as judge_facts
    from aml_train.image.readiness.judge import readiness_error as readiness_error
    from aml_train.image.records import any_record as any_record
    from aml_train.image.records import known_record as known_record
    from aml_train.image.records import load_record as load_record
    from aml_train.image.registry.auth import Login as Login
    from aml_train.image.registry.auth import RegistryAuth as RegistryAuth
    from aml_train.image.registry.auth import is_acr as is_acr
    from aml_train.image.registry.client import Registry as Registry
    from aml_train.image.registry.client import RegistryLocation as RegistryLocation
    from aml_train.image.registry.manifest import Manifest as Manifest
    from aml_train.image.registry.referrers import Referrer as Referrer
    from aml_train.image.registry.referrers import attach_document as attach_document
    from aml_train.image.registry.referrers import fallback_tag as fallback_tag
    from aml_train.image.registry.referrers import list_referrers as list_referrers
    from aml_train.image.registry.referrers import read_referrer as read_referrer
    from aml_train.image.spec import CheckPolicy as CheckPolicy
    from aml_train.image.spec import Given as Given
    from aml_train.image.spec import ImageSpec as ImageSpec
    from aml_train.image.spec import JobImage as JobImage
    from aml_train.image.spec import Release as Release
    from aml_train.image.spec import Tested as Tested
    from aml_train.image.spec import TestRecord as TestRecord
    from aml_train.image.spec import TestSpec as TestSpec
    from aml_train.image.spec import plan_image as plan_image
    from aml_train.image.testing.container import has_gpus as has_gpus

_MODULES = {
    "BaseImages": "base",
    "docker_login": "base",
    "docker_registries": "base",
    "registry_route": "base",
    "ImageSettings": "base_files",
    "build_folder": "build.build",
    "write_context": "build.build",
    "room_here": "disk",
    "SECRET_PATH_VARIABLE": "build_secrets",
    "WORKSPACE_VARIABLE": "build_secrets",
    "secret_access": "build_secrets",
    "BuildPlace": "builders.place",
    "BuildService": "builders.service",
    "ServiceBuild": "builders.service",
    "build_and_probe": "make",
    "ensure_image": "ensure",
    "find_build": "ensure",
    "find_image": "ensure",
    "any_record": "records",
    "known_record": "records",
    "locate_image": "ensure",
    "BaseImage": "inputs",
    "BaseResolver": "collect",
    "ImageInputs": "inputs",
    "DriversReader": "collect",
    "OsReader": "collect",
    "collect_inputs": "collect",
    "read_file": "collect",
    "unresolved_base": "collect",
    "sweep_leftovers": "leftovers",
    "PAPER_TYPES": "papers",
    "SLSA_PROVENANCE": "papers",
    "pull_image": "push",
    "release": "push",
    "probe_image": "readiness.check",
    "Facts": "readiness.facts",
    "judge_facts": "readiness.judge",
    "readiness_error": "readiness.judge",
    "load_record": "records",
    "Login": "registry.auth",
    "RegistryAuth": "registry.auth",
    "is_acr": "registry.auth",
    "Registry": "registry.client",
    "RegistryLocation": "registry.client",
    "Manifest": "registry.manifest",
    "Referrer": "registry.referrers",
    "attach_document": "registry.referrers",
    "fallback_tag": "registry.referrers",
    "list_referrers": "registry.referrers",
    "read_referrer": "registry.referrers",
    "has_gpus": "testing.container",
    "CheckPolicy": "spec",
    "Given": "spec",
    "ImageSpec": "spec",
    "JobImage": "spec",
    "Release": "spec",
    "TestRecord": "spec",
    "TestSpec": "spec",
    "Tested": "spec",
    "plan_image": "spec",
    "read_packages": "packages",
    "Inventory": "prune.inventory",
    "PrunePolicy": "prune.inventory",
    "Use": "prune.inventory",
    "read_entries": "prune.listing",
    "PrunePlan": "prune.plan",
    "plan_prune": "prune.plan",
    "execute_prune": "prune.execute",
    "PruneOutcome": "prune.execute",
    "PruneResult": "prune.execute",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
