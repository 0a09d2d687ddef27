"""`command: doctor`: check everything that a run of this workflow needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from aml_train.config.load import load_targets
from aml_train.core.diagnosis import MARKS
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.doctor import DoctorProject
from aml_train.doctor import diagnose as run
from aml_train_action.inputs.inputs import Inputs, load_configuration
from aml_train_action.session import Session

if TYPE_CHECKING:
    from aml_train.config.model import Config
    from aml_train.core.diagnosis import CheckResult

_STATUS: Final[Mapping[int, str]] = {
    0: "checked",
    **{error.exit_code: error.status for error in (AmlTrainError, InvalidError, ServiceError)},
}


def diagnose(session: Session, inputs: Inputs) -> None:
    """Run all checks; each failure becomes an annotation with its remedy."""
    lines: list[str] = []

    def load() -> Config:
        config = load_configuration(inputs)[0]
        for secret in config.secrets(session.environ):
            session.hide(secret)
        return config

    def show(result: CheckResult) -> None:
        outcome = result.outcome
        text = f"{result.name}: {outcome.found}"
        if outcome.status in ("failed", "warning") and outcome.remedy:
            text = f"{text}\n{outcome.remedy}"
        session.channel.text(text, sign=MARKS[outcome.status])
        lines.append(f"{MARKS[outcome.status]} {text}")
        if outcome.status == "failed":
            session.annotate("error", text, title="aml-train doctor")

    project = DoctorProject(
        load=load,
        targets=lambda: load_targets(inputs.config, directory=inputs.directory),
        target=inputs.target,
    )
    diagnosis = run(project, session.host(inputs.azure.variables(session.environ)), show, masker=session.masker)
    session.text = "\n".join(lines)
    summary = diagnosis.summary()
    session.record.end(_STATUS.get(diagnosis.exit_code, "error"), diagnosis.exit_code, summary)
    session.channel.text(summary, sign="✗" if diagnosis.exit_code else "✓")
