"""AzureML jobs: what is submitted, what states there are, how a run is watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.jobs.attempts import Attempt as Attempt
    from aml_train.jobs.attempts import Comparison as Comparison
    from aml_train.jobs.attempts import attempt_of as attempt_of
    from aml_train.jobs.attempts import earlier_attempts as earlier_attempts
    from aml_train.jobs.attempts import may_follow as may_follow
    from aml_train.jobs.attempts import next_name as next_name
    from aml_train.jobs.attempts import number_of as number_of
    from aml_train.jobs.attempts import resubmit as resubmit
    from aml_train.jobs.attempts import retries_of as retries_of
    from aml_train.jobs.attempts import submit_next as submit_next
    from aml_train.jobs.code import check_code as check_code
    from aml_train.jobs.code import unsent_metrics as unsent_metrics
    from aml_train.jobs.code import unsent_notice as unsent_notice
    from aml_train.jobs.composed import COMPOSED as COMPOSED
    from aml_train.jobs.composed import FAILED_TRIALS as FAILED_TRIALS
    from aml_train.jobs.composed import TRIALS as TRIALS
    from aml_train.jobs.composed import ChildView as ChildView
    from aml_train.jobs.composed import JobKind as JobKind
    from aml_train.jobs.composed import Objective as Objective
    from aml_train.jobs.composed import ambiguous as ambiguous
    from aml_train.jobs.composed import best_trial as best_trial
    from aml_train.jobs.composed import counted as counted
    from aml_train.jobs.composed import disagreement as disagreement
    from aml_train.jobs.composed import of_nodes as of_nodes
    from aml_train.jobs.composed import owners as owners
    from aml_train.jobs.composed import unfinished as unfinished
    from aml_train.jobs.cost import Cost as Cost
    from aml_train.jobs.cost import Spending as Spending
    from aml_train.jobs.cost import placement_of as placement_of
    from aml_train.jobs.data import DataFile as DataFile
    from aml_train.jobs.data import DataIdentity as DataIdentity
    from aml_train.jobs.data import DataSource as DataSource
    from aml_train.jobs.data import change_text as change_text
    from aml_train.jobs.data import changed_data as changed_data
    from aml_train.jobs.data import data_sources as data_sources
    from aml_train.jobs.data import identity_of as identity_of
    from aml_train.jobs.data import input_name as input_name
    from aml_train.jobs.data import recorded_contents as recorded_contents
    from aml_train.jobs.data import recorded_data as recorded_data
    from aml_train.jobs.graph_cost import GraphSpending as GraphSpending
    from aml_train.jobs.identity import Identity as Identity
    from aml_train.jobs.identity import code_names as code_names
    from aml_train.jobs.identity import environment_names as environment_names
    from aml_train.jobs.identity import identity_difference as identity_difference
    from aml_train.jobs.identity import job_identity as job_identity
    from aml_train.jobs.identity import parts_of_document as parts_of_document
    from aml_train.jobs.identity import run_identity as run_identity
    from aml_train.jobs.identity import version_of as version_of
    from aml_train.jobs.inputs import data_of as data_of
    from aml_train.jobs.inputs import data_to_be as data_to_be
    from aml_train.jobs.inputs import pin_data as pin_data
    from aml_train.jobs.inputs import shown_data as shown_data
    from aml_train.jobs.live import LiveJob as LiveJob
    from aml_train.jobs.live import await_end as await_end
    from aml_train.jobs.live import request_cancel as request_cancel
    from aml_train.jobs.logs.follow import LogFollower as LogFollower
    from aml_train.jobs.logs.follow import LogReader as LogReader
    from aml_train.jobs.logs.follow import LogText as LogText
    from aml_train.jobs.logs.follow import log_addresses as log_addresses
    from aml_train.jobs.logs.names import log_name as log_name
    from aml_train.jobs.logs.pages import JobPages as JobPages
    from aml_train.jobs.logs.pages import pages_of as pages_of
    from aml_train.jobs.logs.report import JobLogs as JobLogs
    from aml_train.jobs.logs.report import quote_logs as quote_logs
    from aml_train.jobs.logs.tracebacks import innermost as innermost
    from aml_train.jobs.metrics import read_tables as read_tables
    from aml_train.jobs.metrics import settle_logged as settle_logged
    from aml_train.jobs.metrics import settle_metrics as settle_metrics
    from aml_train.jobs.metrics import tables_of_job as tables_of_job
    from aml_train.jobs.nodes import descendants as descendants
    from aml_train.jobs.nodes import wrote as wrote
    from aml_train.jobs.pace import Exceeded as Exceeded
    from aml_train.jobs.pace import Limits as Limits
    from aml_train.jobs.pace import Pace as Pace
    from aml_train.jobs.runconfig import run_configuration as run_configuration
    from aml_train.jobs.setup import add_setup as add_setup
    from aml_train.jobs.setup import check_links as check_links
    from aml_train.jobs.snapshot import HASH_VERSION as HASH_VERSION
    from aml_train.jobs.snapshot import Block as Block
    from aml_train.jobs.snapshot import Snapshot as Snapshot
    from aml_train.jobs.snapshot import listing_digest as listing_digest
    from aml_train.jobs.snapshot import read_snapshot as read_snapshot
    from aml_train.jobs.spec import SERVERLESS as SERVERLESS
    from aml_train.jobs.spec import JobSpec as JobSpec
    from aml_train.jobs.spec import JobTemplate as JobTemplate
    from aml_train.jobs.spec import NodesImage as NodesImage
    from aml_train.jobs.spec import TargetNames as TargetNames
    from aml_train.jobs.spec import changed_parts as changed_parts
    from aml_train.jobs.spec import in_images as in_images
    from aml_train.jobs.spec import job_name as job_name
    from aml_train.jobs.spec import make_job as make_job
    from aml_train.jobs.spec import stem_of as stem_of
    from aml_train.jobs.states import JobStatus as JobStatus
    from aml_train.jobs.states import failure_of as failure_of
    from aml_train.jobs.states import headline as headline
    from aml_train.jobs.states import parse_status as parse_status
    from aml_train.jobs.watch import Watch as Watch
    from aml_train.jobs.workspace import JobView as JobView
    from aml_train.jobs.workspace import LogBeganAnewError as LogBeganAnewError
    from aml_train.jobs.workspace import ModelView as ModelView
    from aml_train.jobs.workspace import NewModel as NewModel
    from aml_train.jobs.workspace import NodeKind as NodeKind
    from aml_train.jobs.workspace import Placement as Placement
    from aml_train.jobs.workspace import StorageUnreachableError as StorageUnreachableError
    from aml_train.jobs.workspace import Workspace as Workspace

_MODULES = {
    "descendants": "nodes",
    "wrote": "nodes",
    "COMPOSED": "composed",
    "ChildView": "composed",
    "FAILED_TRIALS": "composed",
    "JobKind": "composed",
    "Objective": "composed",
    "TRIALS": "composed",
    "ambiguous": "composed",
    "best_trial": "composed",
    "counted": "composed",
    "disagreement": "composed",
    "of_nodes": "composed",
    "owners": "composed",
    "unfinished": "composed",
    "Attempt": "attempts",
    "attempt_of": "attempts",
    "earlier_attempts": "attempts",
    "may_follow": "attempts",
    "next_name": "attempts",
    "number_of": "attempts",
    "resubmit": "attempts",
    "retries_of": "attempts",
    "Comparison": "attempts",
    "submit_next": "attempts",
    "check_code": "code",
    "unsent_notice": "code",
    "unsent_metrics": "code",
    "Cost": "cost",
    "Spending": "cost",
    "DataFile": "data",
    "DataIdentity": "data",
    "identity_of": "data",
    "DataSource": "data",
    "change_text": "data",
    "changed_data": "data",
    "data_sources": "data",
    "input_name": "data",
    "recorded_contents": "data",
    "recorded_data": "data",
    "GraphSpending": "graph_cost",
    "placement_of": "cost",
    "Identity": "identity",
    "code_names": "identity",
    "environment_names": "identity",
    "identity_difference": "identity",
    "job_identity": "identity",
    "parts_of_document": "identity",
    "data_of": "inputs",
    "data_to_be": "inputs",
    "pin_data": "inputs",
    "shown_data": "inputs",
    "version_of": "identity",
    "LiveJob": "live",
    "await_end": "live",
    "request_cancel": "live",
    "LogFollower": "logs.follow",
    "LogReader": "logs.follow",
    "LogText": "logs.follow",
    "log_addresses": "logs.follow",
    "log_name": "logs.names",
    "JobPages": "logs.pages",
    "pages_of": "logs.pages",
    "JobLogs": "logs.report",
    "quote_logs": "logs.report",
    "innermost": "logs.tracebacks",
    "read_tables": "metrics",
    "settle_logged": "metrics",
    "settle_metrics": "metrics",
    "tables_of_job": "metrics",
    "Exceeded": "pace",
    "Limits": "pace",
    "Pace": "pace",
    "check_links": "setup",
    "add_setup": "setup",
    "run_configuration": "runconfig",
    "run_identity": "identity",
    "HASH_VERSION": "snapshot",
    "Block": "snapshot",
    "Snapshot": "snapshot",
    "listing_digest": "snapshot",
    "read_snapshot": "snapshot",
    "JobSpec": "spec",
    "SERVERLESS": "spec",
    "JobTemplate": "spec",
    "NodesImage": "spec",
    "TargetNames": "spec",
    "changed_parts": "spec",
    "job_name": "spec",
    "in_images": "spec",
    "make_job": "spec",
    "stem_of": "spec",
    "JobStatus": "states",
    "failure_of": "states",
    "headline": "states",
    "parse_status": "states",
    "Watch": "watch",
    "JobView": "workspace",
    "LogBeganAnewError": "workspace",
    "ModelView": "workspace",
    "NewModel": "workspace",
    "NodeKind": "workspace",
    "Placement": "workspace",
    "StorageUnreachableError": "workspace",
    "Workspace": "workspace",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
