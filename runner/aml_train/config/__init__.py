"""aml-train.yml and the job YAML: parsed and checked, with file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.config.document import json_schema as json_schema
    from aml_train.config.job.command_line import CommandLine as CommandLine
    from aml_train.config.job.model import MOST_NESTED as MOST_NESTED
    from aml_train.config.job.model import Job as Job
    from aml_train.config.job.model import JobNode as JobNode
    from aml_train.config.job.model import Place as Place
    from aml_train.config.job.model import inner_mappings as inner_mappings
    from aml_train.config.job.model import mapping_at as mapping_at
    from aml_train.config.job.paths import change_paths as change_paths
    from aml_train.config.job.paths import is_local as is_local
    from aml_train.config.load import PromotionConfig as PromotionConfig
    from aml_train.config.load import Targets as Targets
    from aml_train.config.load import check_text as check_text
    from aml_train.config.load import load_command as load_command
    from aml_train.config.load import load_config as load_config
    from aml_train.config.load import load_passport as load_passport
    from aml_train.config.load import load_promotion as load_promotion
    from aml_train.config.load import load_targets as load_targets
    from aml_train.config.model import Config as Config
    from aml_train.config.policy import IdentityConfig as IdentityConfig
    from aml_train.config.policy import PolicyConfig as PolicyConfig
    from aml_train.config.policy import load_policy as load_policy
    from aml_train.config.sections.code import CodeConfig as CodeConfig
    from aml_train.config.sections.code import DataConfig as DataConfig
    from aml_train.config.sections.code import DataLink as DataLink
    from aml_train.config.sections.code import SetupCommand as SetupCommand
    from aml_train.config.sections.gate import BaselineConfig as BaselineConfig
    from aml_train.config.sections.gate import GateRule as GateRule
    from aml_train.config.sections.gate import JsonValue as JsonValue
    from aml_train.config.sections.image import CopyConfig as CopyConfig
    from aml_train.config.sections.image import DockerfileConfig as DockerfileConfig
    from aml_train.config.sections.image import ImageConfig as ImageConfig
    from aml_train.config.sections.image import PullPolicy as PullPolicy
    from aml_train.config.sections.image import RunStep as RunStep
    from aml_train.config.sections.image import SecretConfig as SecretConfig
    from aml_train.config.sections.image_builder import BuilderConfig as BuilderConfig
    from aml_train.config.sections.image_ofed import OfedConfig as OfedConfig
    from aml_train.config.sections.image_packages import SECRET_IN_URL as SECRET_IN_URL
    from aml_train.config.sections.image_packages import PipConfig as PipConfig
    from aml_train.config.sections.image_packages import ProtectConfig as ProtectConfig
    from aml_train.config.sections.image_papers import SbomConfig as SbomConfig
    from aml_train.config.sections.image_papers import ScanConfig as ScanConfig
    from aml_train.config.sections.images import NodeImage as NodeImage
    from aml_train.config.sections.model import StagePolicy as StagePolicy
    from aml_train.config.sections.passport import PassportConfig as PassportConfig
    from aml_train.config.sections.passport import Requirement as Requirement
    from aml_train.config.sections.targets import ClusterConfig as ClusterConfig
    from aml_train.config.sections.targets import TargetConfig as TargetConfig
    from aml_train.config.sections.tests import ContainerLimits as ContainerLimits
    from aml_train.config.sections.tests import TestsConfig as TestsConfig
    from aml_train.config.sections.watch import CostConfig as CostConfig
    from aml_train.config.sections.watch import RetryConfig as RetryConfig
    from aml_train.config.sections.watch import WatchConfig as WatchConfig
    from aml_train.config.yaml.nodes import Faults as Faults
    from aml_train.config.yaml.nodes import ListNode as ListNode
    from aml_train.config.yaml.nodes import MapNode as MapNode
    from aml_train.config.yaml.nodes import Mark as Mark
    from aml_train.config.yaml.nodes import Node as Node
    from aml_train.config.yaml.nodes import ScalarNode as ScalarNode
    from aml_train.config.yaml.nodes import find as find
    from aml_train.config.yaml.nodes import place as place
    from aml_train.config.yaml.shapes import nearest as nearest
    from aml_train.config.yaml.source import MAX_BYTES as MAX_BYTES
    from aml_train.config.yaml.source import read_text as read_text
    from aml_train.config.yaml.tree import parse as parse

_MODULES = {
    "json_schema": "document",
    "CommandLine": "job.command_line",
    "Job": "job.model",
    "JobNode": "job.model",
    "MOST_NESTED": "job.model",
    "Place": "job.model",
    "inner_mappings": "job.model",
    "mapping_at": "job.model",
    "change_paths": "job.paths",
    "is_local": "job.paths",
    "PromotionConfig": "load",
    "Targets": "load",
    "check_text": "load",
    "load_command": "load",
    "load_config": "load",
    "load_passport": "load",
    "load_promotion": "load",
    "load_targets": "load",
    "Config": "model",
    "CodeConfig": "sections.code",
    "DataConfig": "sections.code",
    "DataLink": "sections.code",
    "SetupCommand": "sections.code",
    "BaselineConfig": "sections.gate",
    "GateRule": "sections.gate",
    "JsonValue": "sections.gate",
    "CopyConfig": "sections.image",
    "DockerfileConfig": "sections.image",
    "ImageConfig": "sections.image",
    "NodeImage": "sections.images",
    "PullPolicy": "sections.image",
    "RunStep": "sections.image",
    "SecretConfig": "sections.image",
    "BuilderConfig": "sections.image_builder",
    "OfedConfig": "sections.image_ofed",
    "PipConfig": "sections.image_packages",
    "ProtectConfig": "sections.image_packages",
    "SbomConfig": "sections.image_papers",
    "ScanConfig": "sections.image_papers",
    "SECRET_IN_URL": "sections.image_packages",
    "StagePolicy": "sections.model",
    "IdentityConfig": "policy",
    "PassportConfig": "sections.passport",
    "PolicyConfig": "policy",
    "Requirement": "sections.passport",
    "load_policy": "policy",
    "ClusterConfig": "sections.targets",
    "TargetConfig": "sections.targets",
    "ContainerLimits": "sections.tests",
    "TestsConfig": "sections.tests",
    "CostConfig": "sections.watch",
    "RetryConfig": "sections.watch",
    "WatchConfig": "sections.watch",
    "Faults": "yaml.nodes",
    "ListNode": "yaml.nodes",
    "MapNode": "yaml.nodes",
    "Mark": "yaml.nodes",
    "Node": "yaml.nodes",
    "ScalarNode": "yaml.nodes",
    "find": "yaml.nodes",
    "place": "yaml.nodes",
    "nearest": "yaml.shapes",
    "MAX_BYTES": "yaml.source",
    "read_text": "yaml.source",
    "parse": "yaml.tree",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
