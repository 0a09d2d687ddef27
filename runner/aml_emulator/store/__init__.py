"""The emulator's state: SQLite, and blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_emulator.lazy import lazily

if TYPE_CHECKING:
    from aml_emulator.store.assets import AssetContainer as AssetContainer
    from aml_emulator.store.assets import AssetVersion as AssetVersion
    from aml_emulator.store.assets import Compute as Compute
    from aml_emulator.store.assets import next_number as next_number
    from aml_emulator.store.blobs import Blobs as Blobs
    from aml_emulator.store.browse import LARGEST as LARGEST
    from aml_emulator.store.browse import MetricSummary as MetricSummary
    from aml_emulator.store.browse import Series as Series
    from aml_emulator.store.datastores import Datastore as Datastore
    from aml_emulator.store.faults import is_disk_full as is_disk_full
    from aml_emulator.store.faults import is_storage_fault as is_storage_fault
    from aml_emulator.store.listing import ModelLine as ModelLine
    from aml_emulator.store.listing import RunFilter as RunFilter
    from aml_emulator.store.listing import RunLine as RunLine
    from aml_emulator.store.metrics import Metric as Metric
    from aml_emulator.store.metrics import ParameterConflictError as ParameterConflictError
    from aml_emulator.store.runs import RUN_ORDER as RUN_ORDER
    from aml_emulator.store.runs import Artifact as Artifact
    from aml_emulator.store.runs import Experiment as Experiment
    from aml_emulator.store.runs import Run as Run
    from aml_emulator.store.store import Store as Store
    from aml_emulator.store.store import has_unfinished_jobs as has_unfinished_jobs
    from aml_emulator.store.v1 import LIST as LIST
    from aml_emulator.store.v1 import MetricRow as MetricRow

_MODULES = {
    "AssetContainer": "assets",
    "AssetVersion": "assets",
    "Compute": "assets",
    "next_number": "assets",
    "Blobs": "blobs",
    "LARGEST": "browse",
    "MetricSummary": "browse",
    "Series": "browse",
    "Datastore": "datastores",
    "is_disk_full": "faults",
    "is_storage_fault": "faults",
    "ModelLine": "listing",
    "RunFilter": "listing",
    "RunLine": "listing",
    "Metric": "metrics",
    "ParameterConflictError": "metrics",
    "RUN_ORDER": "runs",
    "Artifact": "runs",
    "Experiment": "runs",
    "Run": "runs",
    "Store": "store",
    "has_unfinished_jobs": "store",
    "LIST": "v1",
    "MetricRow": "v1",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
