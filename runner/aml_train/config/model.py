"""What the configuration says, as values. Frozen; made by :mod:`aml_train.config.load` only.

The words are those of the file (with ``-`` for ``_``): docs/configuration.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aml_train.config.sections.image_model import ImageConfig as ImageConfig
from aml_train.config.sections.image_model import PipConfig as PipConfig
from aml_train.gate import DataPolicy, Policies, Rule


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run configuration of the SDK v1: one that was checked, or one made of a command job.

    Attributes:
        values: its keys of today, in camelCase.
        command: what it runs, as a shell command by itself.
    """

    values: Mapping[str, Any]
    command: str


@dataclass(frozen=True, kw_only=True)
class CommandJob:
    """A command job in the grammar of the AzureML CLI v2, checked.

    Attributes:
        document: the whole job as a mapping, overrides applied, ready for ``azure.ai.ml.load_job``. What the file
            left out (``$schema``, ``type``, ``compute``) stays out; environment variables and versions are text,
            counts are integers, and what the service writes (``id``, ``status``, …) is dropped.
        directory: the folder that the document's relative paths start from.
        file: the job's YAML file; the aml-train.yml where the job stands inline.
        code: the folder of the code snapshot, absolute, where it is a local one; a file where the job names a single
            file; None where there is none or it is remote (``azureml:…``, ``git+…``, ``https://…``).
        runconfig: what it was made of, where that was a run configuration; or what the SDK v1 submits for it, where it is asked to.
    """

    document: Mapping[str, Any]
    directory: Path
    file: Path
    code: Path | None
    runconfig: RunConfig | None = None


@dataclass(frozen=True, kw_only=True)
class ContainerLimits:
    """What the tests' container may use.

    Attributes:
        cpus: processors, such as 1.5; None for all of the engine's.
        memory: bytes; None for all of the engine's.
        shm: bytes of ``/dev/shm``, which torch's data loaders use.
        memlock: bytes that may be locked in memory, which InfiniBand needs; -1 for no bound, None for the engine's own.
        gpus: ``auto`` for all where the engine has any, ``none``, or ``all``.
    """

    cpus: float | None = None
    memory: int | None = None
    shm: int = 1 << 30
    memlock: int | None = None
    gpus: Literal["auto", "none", "all"] = "auto"


@dataclass(frozen=True, kw_only=True)
class TestsConfig:
    """``tests:``: what runs inside the image before anything is submitted.

    Attributes:
        command: a shell command line.
        files: glob patterns (gitignore style) under the project folder that are copied into the container; empty
            for every file that is not ignored.
        env: environment variables for the tests.
        timeout: seconds.
        network: whether the tests may use the network.
        workdir: folder of the project that the command runs in, relative to it; empty for the project's own.
        limits: what the container may use.
        junit: path of a JUnit report inside the container, relative to the working directory, that the command must
            write; None where pytest is passed a path of ours.
        allow_empty: whether tests pass of which none was executed.
    """

    __test__ = False
    command: str
    files: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 1800.0
    network: bool = False
    workdir: str = ""
    limits: ContainerLimits = ContainerLimits()
    junit: str | None = None
    allow_empty: bool = False


@dataclass(frozen=True, kw_only=True)
class JsonValue:
    """A number in a JSON file among the job's artefacts: the file's path, and the JSON Pointer (RFC 6901) in it."""

    file: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class GateRule:
    """One rule of ``gate:`` with its metric, the place it was written at, and what becomes of it where it does not hold.

    *source* is where the value is, if it is in a file of the job and not a metric that it logged.
    """

    metric: str
    rule: Rule
    where: str
    policies: Policies = field(default_factory=Policies)
    source: JsonValue | None = None


@dataclass(frozen=True, kw_only=True)
class StagePolicy:
    """One entry of ``promote:``: what a model must meet to get into a stage.

    Attributes:
        sources: the stages that it may come from, in lower case; none for any.
        rules: the gate; its baseline is the model that is in the stage.
        bootstrap: whether the stage may be empty where rules need a baseline.
        data: what becomes of the gate where the model in the stage has read other data.
        where: ``file:line``; empty where nothing is written for the stage.
    """

    sources: tuple[str, ...] = ()
    rules: tuple[GateRule, ...] = ()
    bootstrap: bool = False
    data: DataPolicy = "warn"
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class BaselineConfig:
    """``baseline:``: what rules compare with. Exactly one of *file*, *job*, *model* and *branch* is given.

    Attributes:
        file: absolute path of a JSON file of metrics.
        job: a job's name.
        model: a model's name; the newest version counts that *stage*, *tag* or *version* names.
        stage: as ``aml-train promote`` sets it.
        tag: ``name`` or ``name=value``.
        version: the version itself.
        branch: a branch of this repository; the latest run of it that passed counts.
        data: what becomes of the gate where candidate and baseline have read different data.
        bootstrap: whether there need be none yet.
        where: ``file:line``.
    """

    file: Path | None = None
    job: str | None = None
    model: str | None = None
    stage: str | None = None
    tag: str | None = None
    version: str | None = None
    branch: str | None = None
    data: DataPolicy = "warn"
    bootstrap: bool = False
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """``model:``: what is registered after the gate.

    Attributes:
        name: the model's name in the workspace.
        path: a path under the job's artefacts, such as ``outputs/model``; or None where *output* is given.
        output: the name of one of the job's outputs; or None.
        type: the asset type, in azure-ai-ml's words.
        stage: the stage that a new version is registered in, such as ``candidate``; None for none.
        description: free text.
        tags: tags beside our own.
    """

    name: str
    path: str | None = None
    output: str | None = None
    type: Literal["custom_model", "mlflow_model", "triton_model"] = "custom_model"
    stage: str | None = None
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SshConfig:
    """``ssh:`` of a cluster: who may sign in to its nodes."""

    user: str
    public_key_file: Path


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """A target's ``compute:`` where it is a cluster that is made if it is missing.

    Attributes:
        name: the compute's name.
        size: the VM size, in Azure's words.
        min_nodes, max_nodes: bounds of its number of nodes.
        idle_seconds: how long a node is kept that has nothing to do.
        tier: ``spot`` is what Azure calls low priority.
        identity: ``system`` and resource ids of user-assigned identities.
        subnet: ``VNET/SUBNET`` or a resource id.
        ssh: who may sign in to its nodes.
        update: whether one that is there is changed.
        where: the place it was written at.
    """

    name: str
    size: str
    min_nodes: int = 0
    max_nodes: int = 1
    idle_seconds: float = 120.0
    tier: Literal["dedicated", "spot"] = "dedicated"
    identity: tuple[str, ...] = ()
    subnet: str | None = None
    ssh: SshConfig | None = None
    update: bool = False
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """One of ``targets:``.

    Attributes:
        name: ``local`` is the local AzureML; any other name is a workspace in Azure.
        kind: which of the two it is.
        subscription_id, resource_group, workspace: where it is, for ``azure``; None where config.json or the environment
            says it.
        registry: the registry's host, as jobs name it; None for the workspace's own.
        push_registry: how the engine names that registry, where it is another name; None where it is the same.
        registry_user: who signs in to it with a password, instead of the identity or what ``docker login`` keeps.
        registry_password_variable: the environment variable that holds that password.
        compute: the compute that replaces the job's; None leaves the job's as it is.
        cluster: what that compute is to be, where more than its name is said.
        environments: images that play curated environments, by pattern, for ``local``.
    """

    name: str
    kind: Literal["local", "azure"]
    subscription_id: str | None = None
    resource_group: str | None = None
    workspace: str | None = None
    registry: str | None = None
    push_registry: str | None = None
    registry_user: str | None = None
    registry_password_variable: str = "AML_TRAIN_REGISTRY_PASSWORD"  # noqa: S105 - a variable's name
    compute: str | None = None
    cluster: ClusterConfig | None = None
    environments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WaitConfig:
    """``watch:``: how long a run may take, in seconds, None for no bound; and what becomes of the job that it leaves."""

    timeout: float | None = None
    queue_timeout: float | None = None
    run_timeout: float | None = None
    logs: Literal["user", "all"] = "user"
    on_cancel: Literal["cancel", "detach"] = "cancel"


@dataclass(frozen=True, kw_only=True)
class RetryConfig:
    """``retry:``: how often a preempted job is submitted again."""

    preempted: int = 0


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a node of one size costs for an hour, by tier; None where that is not said."""

    dedicated: float | None = None
    low_priority: float | None = None


@dataclass(frozen=True, kw_only=True)
class CostConfig:
    """``cost:``: what nodes cost, and what a job may.

    Attributes:
        currency: three letters.
        prices: by VM size, in lower case.
        max_node_hours, max_cost: bounds over all attempts; None for none.
        where: ``file:line``.
    """

    currency: str = "USD"
    prices: Mapping[str, Price] = field(default_factory=dict)
    max_node_hours: float | None = None
    max_cost: float | None = None
    where: str = "cost"


@dataclass(frozen=True, kw_only=True)
class CodeConfig:
    """``code:``: what may be sent of the job's code folder.

    Attributes:
        max_size: bytes of all files together.
        max_files: how many files.
        include: gitignore patterns of what is sent although it looks like a secret or a cache, or belongs to the run.

    The bounds are those that AzureML has had for snapshots: 300 MB and 2,000 files
    (https://learn.microsoft.com/azure/machine-learning/how-to-save-write-experiment-files).
    """

    max_size: int = 300_000_000
    max_files: int = 2000
    include: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SetupCommand:
    """One item of ``setup:`` and the place that it was written at."""

    command: str
    where: str


@dataclass(frozen=True, kw_only=True)
class DataLink:
    """One entry of ``data:``: what stands at *local* here stands there in the job, too.

    Attributes:
        local: a path relative to the code folder, in its normal form.
        path: where the data is: an ``azureml:`` reference, a datastore path or another address.
        type: what it is.
        mode: how the job gets it, in azure-ai-ml's words.
        where: the place that it was written at.
    """

    local: str
    path: str
    type: Literal["uri_folder", "uri_file", "mltable"] = "uri_folder"
    mode: str = "ro_mount"
    where: str


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything the user said, checked.

    Attributes:
        file: the aml-train.yml, or None for a bare job YAML.
        directory: the project folder: where aml-train.yml (or the job's YAML) stands. Absolute.
        sdk: which of AzureML's SDKs submits the job; None where nothing is said: :func:`aml_train.pipeline.sdk.with_sdk` decides.
        overrides: what ``--set`` changed, dotted key → value, for the report.
        notices: remarks that are no faults.
    """

    file: Path | None
    directory: Path
    job: CommandJob
    image: ImageConfig | None
    tests: TestsConfig | None
    gate: tuple[GateRule, ...]
    baseline: BaselineConfig | None = None
    model: ModelConfig | None
    promote: Mapping[str, StagePolicy] = field(default_factory=dict)
    target: TargetConfig
    watch: WaitConfig = WaitConfig()
    retry: RetryConfig = RetryConfig()
    cost: CostConfig = field(default_factory=CostConfig)
    code: CodeConfig = CodeConfig()
    setup: tuple[SetupCommand, ...] = ()
    data: tuple[DataLink, ...] = ()
    sdk: Literal["v1", "v2"] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return in one line what a run would consist of."""
        parts = [f"target {self.target.name}"]
        parts.append(f"image from {self.image.title}" if self.image else "the job's own environment")
        parts.append(f"tests `{self.tests.command}`" if self.tests else "no tests")
        parts.append(f"{len(self.gate)} gate {'rule' if len(self.gate) == 1 else 'rules'}")
        parts.append(f"model {self.model.name}" if self.model else "no model")
        return ", ".join(parts)
