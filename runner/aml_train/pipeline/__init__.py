"""The pipeline: from a commit to a gated, registered model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.pipeline.candidates import DEFAULT_BRANCH_VARIABLE as DEFAULT_BRANCH_VARIABLE
    from aml_train.pipeline.compare import Project as Project
    from aml_train.pipeline.compare import Reference as Reference
    from aml_train.pipeline.compare import find_comparison as find_comparison
    from aml_train.pipeline.compare import metric_points as metric_points
    from aml_train.pipeline.compare import parse_reference as parse_reference
    from aml_train.pipeline.compare import project_of as project_of
    from aml_train.pipeline.compare import unlogged as unlogged
    from aml_train.pipeline.compare import with_metrics as with_metrics
    from aml_train.pipeline.data import with_data as with_data
    from aml_train.pipeline.dev_image import DevImage as DevImage
    from aml_train.pipeline.dev_image import find_dev_image as find_dev_image
    from aml_train.pipeline.doctor.diagnose import DoctorProject as DoctorProject
    from aml_train.pipeline.doctor.diagnose import diagnose as diagnose
    from aml_train.pipeline.execute import json_listener as json_listener
    from aml_train.pipeline.execute import run_prepared as run_prepared
    from aml_train.pipeline.execute import sweep_engine as sweep_engine
    from aml_train.pipeline.gate_junit import gate_junit_listener as gate_junit_listener
    from aml_train.pipeline.override import TargetOverride as TargetOverride
    from aml_train.pipeline.override import overriding_targets as overriding_targets
    from aml_train.pipeline.override import target_override as target_override
    from aml_train.pipeline.passport import open_evidence as open_evidence
    from aml_train.pipeline.passport import open_verifier as open_verifier
    from aml_train.pipeline.passport import policy_of as policy_of
    from aml_train.pipeline.plan import Plan as Plan
    from aml_train.pipeline.plan import for_job as for_job
    from aml_train.pipeline.plan import origin_of as origin_of
    from aml_train.pipeline.plan import render_plan as render_plan
    from aml_train.pipeline.plan_values import plan_facts as plan_facts
    from aml_train.pipeline.prepare import PreparedRun as PreparedRun
    from aml_train.pipeline.prepare import plan_image_only as plan_image_only
    from aml_train.pipeline.prepare import prepare_run as prepare_run
    from aml_train.pipeline.project_name import repository_of as repository_of
    from aml_train.pipeline.promotion import make_promoter as make_promoter
    from aml_train.pipeline.promotion import open_promoter as open_promoter
    from aml_train.pipeline.promotion import run_promotion as run_promotion
    from aml_train.pipeline.prune import Prune as Prune
    from aml_train.pipeline.prune import PruneOptions as PruneOptions
    from aml_train.pipeline.prune import prepare_prune as prepare_prune
    from aml_train.pipeline.prune import prune_facts as prune_facts
    from aml_train.pipeline.reproduce import ReproductionPlan as ReproductionPlan
    from aml_train.pipeline.reproduce import failed_reproduction as failed_reproduction
    from aml_train.pipeline.reproduce import open_reproducer as open_reproducer
    from aml_train.pipeline.resolve import BRANCH_VARIABLE as BRANCH_VARIABLE
    from aml_train.pipeline.resolve import Commit as Commit
    from aml_train.pipeline.resolve import read_commit as read_commit
    from aml_train.pipeline.resolve import read_project as read_project
    from aml_train.pipeline.result import Group as Group
    from aml_train.pipeline.result import RunOptions as RunOptions
    from aml_train.pipeline.result import RunResult as RunResult
    from aml_train.pipeline.run_files import mentioned as mentioned
    from aml_train.pipeline.run_files import own_output as own_output
    from aml_train.pipeline.target import Connection as Connection
    from aml_train.pipeline.target import DataTargets as DataTargets
    from aml_train.pipeline.target import Host as Host
    from aml_train.pipeline.target import Target as Target
    from aml_train.pipeline.target import find_open_workspace as find_open_workspace
    from aml_train.pipeline.target import open_workspace as open_workspace

_MODULES = {
    "DevImage": "dev_image",
    "find_dev_image": "dev_image",
    "DoctorProject": "doctor.diagnose",
    "diagnose": "doctor.diagnose",
    "for_job": "plan",
    "origin_of": "plan",
    "with_data": "data",
    "render_plan": "plan",
    "plan_facts": "plan_values",
    "Plan": "plan",
    "PreparedRun": "prepare",
    "json_listener": "execute",
    "plan_image_only": "prepare",
    "prepare_run": "prepare",
    "run_prepared": "execute",
    "sweep_engine": "execute",
    "repository_of": "project_name",
    "gate_junit_listener": "gate_junit",
    "open_evidence": "passport",
    "open_verifier": "passport",
    "policy_of": "passport",
    "make_promoter": "promotion",
    "open_promoter": "promotion",
    "run_promotion": "promotion",
    "BRANCH_VARIABLE": "resolve",
    "Commit": "resolve",
    "read_commit": "resolve",
    "read_project": "resolve",
    "Group": "result",
    "RunOptions": "result",
    "RunResult": "result",
    "mentioned": "run_files",
    "own_output": "run_files",
    "Project": "compare",
    "Reference": "compare",
    "find_comparison": "compare",
    "metric_points": "compare",
    "DEFAULT_BRANCH_VARIABLE": "candidates",
    "project_of": "compare",
    "unlogged": "compare",
    "with_metrics": "compare",
    "parse_reference": "compare",
    "TargetOverride": "override",
    "target_override": "override",
    "overriding_targets": "override",
    "Connection": "target",
    "Target": "target",
    "DataTargets": "target",
    "Host": "target",
    "find_open_workspace": "target",
    "open_workspace": "target",
    "Prune": "prune",
    "PruneOptions": "prune",
    "prepare_prune": "prune",
    "prune_facts": "prune",
    "failed_reproduction": "reproduce",
    "ReproductionPlan": "reproduce",
    "open_reproducer": "reproduce",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
