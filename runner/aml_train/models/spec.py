"""The model that a run registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """The model that is registered after the gate.

    Attributes:
        name: the model's name.
        artifact: a path among the job's artefacts; or None.
        output: a named output of the job; or None.
        node: the node of a pipeline that wrote it; None for the job itself.
        run: the run that wrote it, of that node or of the best trial; None for the job's own.
        type: ``custom_model``, ``mlflow_model`` or ``triton_model``.
        stage: the stage that a new version is in at first; None for none. A version that exists keeps its own.
    """

    name: str
    artifact: str | None
    output: str | None
    type: str
    node: str | None = None
    run: str | None = None
    stage: str | None = None
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def uri(self, job: str) -> str:
        """Return the model's path in *job*, as azure-ai-ml documents ``Model.path``."""
        run = self.run or job
        if self.output:
            return f"azureml://jobs/{run}/outputs/{self.output}"
        return f"azureml://jobs/{run}/outputs/artifacts/paths/{(self.artifact or '').strip('/')}"
