"""The configuration as a value. Made by :mod:`aml_train.config.load` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aml_train.config.job.model import Job, JobNode
from aml_train.config.sections.code import CodeConfig, DataConfig, DataLink, SetupCommand
from aml_train.config.sections.gate import BaselineConfig, GateRule
from aml_train.config.sections.graph import nodes_in_image
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.config.sections.images import NodeImage
from aml_train.config.sections.model import ModelConfig, StagePolicies
from aml_train.config.sections.passport import PassportConfig
from aml_train.config.sections.replicates import ReplicatesConfig
from aml_train.config.sections.targets import TargetConfig
from aml_train.config.sections.tests import TestsConfig
from aml_train.config.sections.watch import CostConfig, ResumeConfig, RetryConfig, WatchConfig
from aml_train.core.secrets import known_secrets


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a run.

    >>> load_config(sets={"job.inputs.epochs": 20}).overrides
    {'job.inputs.epochs': 20}

    Attributes:
        file: the aml-train.yml, or None for a bare job YAML.
        directory: the project folder, absolute: that of aml-train.yml or of the job's YAML.
        sdk: the AzureML SDK that submits the job; None for :func:`aml_train.pipeline.sdk.with_sdk` to decide.
        images: further images of a pipeline, each for some nodes.
        overrides: the changes of ``--set``, dotted key → value, for the report.
        notices: remarks that are no faults.
        at: loads the same configuration, with the same changes, after each of its paths was moved by a function.
    """

    file: Path | None
    directory: Path
    job: Job
    image: ImageConfig | None
    tests: TestsConfig | None
    images: tuple[NodeImage, ...] = ()
    gate: tuple[GateRule, ...]
    baseline: BaselineConfig | None = None
    replicates: ReplicatesConfig | None = None
    model: ModelConfig | None
    promote: StagePolicies = field(default_factory=StagePolicies)
    passport: PassportConfig = field(default_factory=PassportConfig)
    target: TargetConfig
    watch: WatchConfig = field(default_factory=WatchConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    resume: ResumeConfig | None = None
    cost: CostConfig = field(default_factory=CostConfig)
    code: CodeConfig = field(default_factory=CodeConfig)
    setup: tuple[SetupCommand, ...] = ()
    data: tuple[DataLink, ...] = ()
    data_config: DataConfig = field(default_factory=DataConfig)
    sdk: Literal["v1", "v2"] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    at: Callable[[Callable[[Path], Path]], Config] | None = field(default=None, compare=False, repr=False)

    @property
    def builder(self) -> BuilderConfig:
        """The builder of the image; this machine's engine if there is no image."""
        return BuilderConfig() if self.image is None else self.image.builder

    @property
    def built_images(self) -> tuple[ImageConfig, ...]:
        """Every image that is built: that of the job, and further ones of a pipeline."""
        return (*((self.image,) if self.image is not None else ()), *(one.image for one in self.images))

    @property
    def nodes_in_image(self) -> tuple[JobNode, ...]:
        """The nodes of a pipeline, or the trial of a sweep, that run in the image."""
        if self.image is None:
            return ()
        elsewhere = {name for one in self.images for name in one.nodes}
        return nodes_in_image(self.job.nodes, self.image.nodes, elsewhere)

    def nodes_in(self, image: NodeImage) -> tuple[JobNode, ...]:
        """Return the nodes of a pipeline that run in one of *images*."""
        return nodes_in_image(self.job.nodes, image.nodes)

    def describe(self) -> str:
        """Return the parts of a run in one line."""
        parts = [f"target {self.target.name}"]
        parts.append(f"image from {self.image.title}" if self.image else "the job's own environment")
        parts.append(f"tests `{self.tests.command}`" if self.tests else "no tests")
        parts.append(f"{len(self.gate)} gate {'rule' if len(self.gate) == 1 else 'rules'}")
        parts.append(f"model {self.model.name}" if self.model else "no model")
        return ", ".join(parts)

    def secrets(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Yield the secrets that the configuration has or names.

        They are the values of variables of the job, the image and the tests whose names say that they are secret, and of those
        variables of *environ* that builds read. AzureML's expressions (``${{…}}``) are no secrets.
        """
        images = self.built_images
        named = [secret.env for image in images for secret in image.secrets.values()]
        yield from filter(None, (environ.get(name) for name in named))
        written: tuple[Mapping[str, object], ...] = (
            *self.job.variables(),
            *(image.env for image in images),
            self.tests.env if self.tests else {},
            *(one.tests.env for one in self.images if one.tests),
        )
        for variables in written:
            texts = {name: str(value) for name, value in variables.items() if "${{" not in str(value)}
            yield from known_secrets(texts, identifiers=False)
