"""aml-train.yml and the job YAML: parse, check, complain with file and line. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.config.job.command_line import CommandLine as CommandLine
    from aml_train.config.load import check_text as check_text
    from aml_train.config.load import load_command as load_command
    from aml_train.config.load import load_config as load_config
    from aml_train.config.model import BaselineConfig as BaselineConfig
    from aml_train.config.model import ClusterConfig as ClusterConfig
    from aml_train.config.model import CodeConfig as CodeConfig
    from aml_train.config.model import CommandJob as CommandJob
    from aml_train.config.model import Config as Config
    from aml_train.config.model import ContainerLimits as ContainerLimits
    from aml_train.config.model import CostConfig as CostConfig
    from aml_train.config.model import DataLink as DataLink
    from aml_train.config.model import GateRule as GateRule
    from aml_train.config.model import JsonValue as JsonValue
    from aml_train.config.model import RetryConfig as RetryConfig
    from aml_train.config.model import SetupCommand as SetupCommand
    from aml_train.config.model import StagePolicy as StagePolicy
    from aml_train.config.model import TargetConfig as TargetConfig
    from aml_train.config.model import TestsConfig as TestsConfig
    from aml_train.config.model import WaitConfig as WaitConfig
    from aml_train.config.schema import json_schema as json_schema
    from aml_train.config.secrets import secrets_in as secrets_in
    from aml_train.config.sections.image_grammar import SECRET_IN_URL as SECRET_IN_URL
    from aml_train.config.sections.image_model import CopyConfig as CopyConfig
    from aml_train.config.sections.image_model import DockerfileConfig as DockerfileConfig
    from aml_train.config.sections.image_model import ImageConfig as ImageConfig
    from aml_train.config.sections.image_model import OfedConfig as OfedConfig
    from aml_train.config.sections.image_model import PipConfig as PipConfig
    from aml_train.config.sections.image_model import ProtectConfig as ProtectConfig
    from aml_train.config.sections.image_model import PullPolicy as PullPolicy
    from aml_train.config.sections.image_model import RunConfig as RunConfig
    from aml_train.config.sections.image_model import SecretConfig as SecretConfig
    from aml_train.config.targets import Targets as Targets
    from aml_train.config.targets import load_promotion as load_promotion
    from aml_train.config.targets import load_targets as load_targets
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
    "CommandLine": "job.command_line",
    "check_text": "load",
    "load_command": "load",
    "load_config": "load",
    "BaselineConfig": "model",
    "ClusterConfig": "model",
    "CodeConfig": "model",
    "CommandJob": "model",
    "Config": "model",
    "ContainerLimits": "model",
    "CostConfig": "model",
    "DataLink": "model",
    "GateRule": "model",
    "JsonValue": "model",
    "RetryConfig": "model",
    "SetupCommand": "model",
    "StagePolicy": "model",
    "TargetConfig": "model",
    "TestsConfig": "model",
    "WaitConfig": "model",
    "json_schema": "schema",
    "secrets_in": "secrets",
    "SECRET_IN_URL": "sections.image_grammar",
    "CopyConfig": "sections.image_model",
    "DockerfileConfig": "sections.image_model",
    "ImageConfig": "sections.image_model",
    "OfedConfig": "sections.image_model",
    "PipConfig": "sections.image_model",
    "ProtectConfig": "sections.image_model",
    "PullPolicy": "sections.image_model",
    "RunConfig": "sections.image_model",
    "SecretConfig": "sections.image_model",
    "Targets": "targets",
    "load_promotion": "targets",
    "load_targets": "targets",
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
