"""Register the model that a job wrote, once, with its lineage."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aml_train.config.sections.model import ModelConfig
from aml_train.core.errors import InvalidError, JobFailedError, ServiceError
from aml_train.core.tags import KEY_LENGTH, VALUE_LENGTH, Tag
from aml_train.core.text import whole
from aml_train.core.version import __version__
from aml_train.gate.decide import Decision
from aml_train.gate.recompute import read_recorded, record
from aml_train.jobs.inputs import data_of
from aml_train.jobs.metrics import fault_of_rules
from aml_train.jobs.workspace import JobView, ModelView, NewModel, Workspace


def model_uri(spec: ModelConfig, run: str) -> str:
    """Return the path of the model that *run* wrote, as azure-ai-ml documents ``Model.path``."""
    place = spec.output or f"artifacts/paths/{(spec.path or '').strip('/')}"
    return f"azureml://jobs/{run}/outputs/{place}"


ML_MODEL: Final = "MLmodel"
#: Of an ensemble there may be nothing but its configuration.
_TRITON: Final = re.compile(r"[^/]+/(?:[0-9]+/model\..+|config\.pbtxt)")
_SHOWN: Final = 6


def fault_of_layout(type_: str, files: Sequence[str]) -> str | None:
    """Return the fault of a model's files, and the remedy; None for no fault.

    Args:
        type_: ``custom_model``, which may be anything, ``mlflow_model`` or ``triton_model``.
        files: relative to the model's folder; a model that is a single file is its own name.
    """
    if type_ == "mlflow_model" and ML_MODEL not in files:
        inner = next((file for file in files if file.endswith(f"/{ML_MODEL}")), None)
        where = f"it is in {inner.rpartition('/')[0]}: name that folder" if inner else f"there are {_shown(files)}"
        return f"an MLflow model has a file {ML_MODEL} at its top, and {where}"
    if type_ == "triton_model" and not any(_TRITON.fullmatch(file) for file in files):
        wanted = "a Triton model repository has MODEL/VERSION/model.EXT, with a number as VERSION"
        return f"{wanted}, and there are {_shown(files)}"
    return None


def _shown(files: Sequence[str]) -> str:
    if not files:
        return "no files"
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(sorted(files)[:_SHOWN]) + more


_FROM_JOB: Final = (
    Tag.COMMIT,
    Tag.BRANCH,
    Tag.REPOSITORY,
    Tag.CONFIGURATION,
    Tag.RUN_URL,
    Tag.IMAGE,
    Tag.DIGEST,
    Tag.ADDRESS,
    Tag.BASE,
    Tag.TESTED,
    Tag.DATA_CHANGED,
)
#: The facts of a lineage that are written as properties, too, which cannot be changed later.
FIXED: Final = (Tag.JOB, Tag.SOURCE, Tag.COMMIT, Tag.DIGEST, Tag.GATE, Tag.RULES, Tag.REPLICATES)
#: AzureML's bounds are those of runs (https://learn.microsoft.com/azure/machine-learning/resource-limits-capacity), which speak of 50 tags. The
#: page does not speak of models; ten are left for promotions.
MOST_TAGS: Final = 40
_ATTEMPTS: Final = 20
_VERSION_LENGTH: Final = 255
_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 1 << 20
_SECRET: Final = re.compile(
    r"(?i)(?:^|[_.-])(?:password|passwd|secret|token|credentials?|(?:api|access|account)?[_-]?key|sas)$"
)


def lineage_tags(job: JobView, *, metrics: Mapping[str, float], decision: Decision) -> dict[str, str]:
    """Return a model's lineage as tags, the most important first.

    They have no secrets: of a parameter that is called like one, only that it was given.

    Args:
        job: the job, whose tags have its origin, also for a run that attaches to it later.
        metrics: the job's.
        decision: the gate's.
    """
    tags = {Tag.VERSION: __version__} | {name: job.tags[name] for name in _FROM_JOB if name in job.tags}
    if Tag.DATA_IDENTITY in job.properties:
        tags[Tag.DATA_IDENTITY] = job.properties[Tag.DATA_IDENTITY]
    if job.experiment:
        tags[Tag.EXPERIMENT] = job.experiment
    tags[Tag.GATE] = decision.word
    if decision.rules:
        tags[Tag.RULES] = record(decision.rules)
    judged = {rule.metric for rule in decision.rules}
    tags |= {f"{Tag.METRIC}{name}": repr(float(metrics[name])) for name in sorted(judged & metrics.keys())}
    tags |= {f"{Tag.DATA}{name}": value for name, value in data_of(job.tags, job.inputs).items()}
    tags |= {f"{Tag.PARAMETER}{name}": value for name, value in shown_parameters(job).items()}
    return tags | {f"{Tag.METRIC}{name}": repr(float(value)) for name, value in sorted(metrics.items())}


def shown_parameters(job: JobView) -> dict[str, str]:
    """Return the job's parameters; the values of secrets are left out."""
    return {name: "***" if _SECRET.search(name) else value for name, value in sorted(job.parameters.items())}


def fitting(tags: Mapping[str, str]) -> dict[str, str]:
    """Return *tags* in order, as far as AzureML's bounds allow; others are counted."""
    kept: dict[str, str] = {}
    left: Counter[str] = Counter()
    for name, value in tags.items():
        if len(name) > KEY_LENGTH or len(kept) >= MOST_TAGS - 1:
            kind = next((one for one in (Tag.METRIC, Tag.PARAMETER, Tag.DATA) if name.startswith(one)), "tags")
            left[kind.removeprefix("aml-train.").rstrip(".")] += 1
        else:
            kept[name] = value if len(value) <= VALUE_LENGTH else f"{value[: VALUE_LENGTH - 1]}…"
    if left:
        kept[Tag.LEFT_OUT] = ", ".join(f"{kind}: {count}" for kind, count in sorted(left.items()))
    return kept


def next_version(versions: list[str]) -> str:
    """Return the number after the highest of *versions*; words among them are ignored."""
    return str(
        max(
            (number for version in versions if (number := whole(version, most=_VERSION_LENGTH)) is not None),
            default=0,
        )
        + 1
    )


def check_written(service: Workspace, spec: ModelConfig, job: str) -> str | None:
    """Look whether *job* wrote the model, and whether it is one of its type.

    Returns:
        why that could not be looked up, for an output whose datastore may not be read from here; None where it was.

    Raises:
        JobFailedError: it wrote nothing there, or something else than a model of that type.
        ServiceError: the service does not answer.
    """
    if spec.output:
        place = f"into its output {spec.output!r}"
        try:
            files = list(itertools.islice(service.output_paths(job, spec.output), _MOST_FILES))
        except (ServiceError, InvalidError) as error:
            if isinstance(error, ServiceError) and error.transient:
                raise
            return f"Whether the job wrote a model {place} could not be looked up: {error.message}"
    else:
        path = (spec.path or "").strip("/")
        place = f"at {path!r}"
        found = itertools.islice(service.artifact_paths(job, path), _MOST_FILES)
        files = [path.rpartition("/")[2] if file == path else file[len(path) + 1 :] for file in found]
    if not files:
        raise JobFailedError(
            f"The job {job} completed, but wrote nothing {place}: there is no model to register.",
            hint="Let the job write its model there, or correct model.path; only outputs/ and logs/ are kept."
            if spec.path
            else "Let the job write its model there, or correct model.output.",
        )
    fault = fault_of_layout(spec.type, files)
    if fault is None and spec.type == "mlflow_model" and spec.path:
        content = service.read_artifact(job, f"{spec.path.strip('/')}/{ML_MODEL}", most=_MOST_BYTES)
        if content is not None and re.search(rb"^flavors:", content, re.MULTILINE) is None:
            fault = f"{ML_MODEL} names no flavors"
    if fault is not None:
        raise JobFailedError(
            f"The files that the job {job} wrote {place} are no {spec.type}: {fault}.",
            hint="Correct model.path or model.type, or let the job write the model as its type demands.",
        )
    return None


def register_model(
    service: Workspace,
    spec: ModelConfig,
    *,
    job: str,
    run: str | None = None,
    tags: Mapping[str, str],
    remark: Callable[[str], None] = lambda _text: None,
) -> tuple[ModelView, bool]:
    """Register the model that *job* wrote, unless an earlier run has done so.

    The version is chosen before the request that makes it, so that repeating the request makes no second one. Of two runs that do this
    for the same job at the same time, both get the same version; of two jobs, one takes the next number.

    Args:
        run: the node or trial of *job* that wrote it; None for the job itself.
        tags: added to the model's own and to those that name the job and the model's place in it; as many as AzureML allows.
        remark: receives what could not be looked up.

    Returns:
        the model's version, and whether it had been registered before.

    Raises:
        JobFailedError: if the job wrote no model of that type.
        ServiceError: if the service refuses or does not answer.
    """
    uri = model_uri(spec, run or job)
    stage = {Tag.STAGE: spec.stage} if spec.stage else {}
    values = {**spec.tags, **tags, **stage, Tag.JOB: job, Tag.SOURCE: uri}
    # If there are too many, metrics, parameters and data are cut.
    order = dict.fromkeys((Tag.JOB, Tag.SOURCE, Tag.STAGE, *_first(tags), *spec.tags, *tags))
    whole = fitting({name: values[name] for name in order if name in values})
    versions = service.models(spec.name)
    if (found := _registered(versions, job, uri)) is not None:
        return found, True
    if (doubt := check_written(service, spec, run or job)) is not None:
        remark(doubt)
    model = NewModel(
        name=spec.name,
        version="",
        path=uri,
        type=spec.type,
        description=spec.description,
        tags=whole,
        properties={name: whole[name] for name in FIXED if name in whole},
    )
    return register_once(service, model, versions, lambda present: _registered(present, job, uri)), False


def register_once(
    service: Workspace,
    model: NewModel,
    versions: Sequence[ModelView],
    find: Callable[[Sequence[ModelView]], ModelView | None],
) -> ModelView:
    """Register *model* under the number after those of *versions*, or a later one if others take it meanwhile.

    Args:
        find: returns the version that is *model*, where it is registered.

    Raises:
        InvalidError: the service refuses it.
        ServiceError: the service refuses or does not answer.
    """
    for _ in range(_ATTEMPTS):
        new = dataclasses.replace(model, version=next_version([version.version for version in versions]))
        try:
            made = service.register(new)
        except (ServiceError, InvalidError):
            versions = service.models(model.name)
            if (found := find(versions)) is not None:
                return found  # the answer was lost, or another run was quicker
            if all(version.version != new.version for version in versions):
                raise
            continue  # another job took that version meanwhile
        if find([made]) is not None:
            return made
        versions = service.models(model.name)
    raise ServiceError(
        f"Registering the model {model.name}: {_ATTEMPTS} versions in a row were taken by other jobs.",
        hint="Run the same command again, or `aml-train attach` for the model of a job.",
        transient=True,
    )


def _registered(versions: Sequence[ModelView], job: str, uri: str) -> ModelView | None:
    """Return the version that *job* was registered as, from that place."""
    wanted = {Tag.JOB: job, Tag.SOURCE: uri}
    return next((one for one in versions if is_same_model(one, wanted)), None)


def is_same_model(found: ModelView, tags: Mapping[str, str]) -> bool:
    """Return whether a version is the one of *tags*: the same job and place in it."""
    return all(found.tags.get(tag) == tags.get(tag) for tag in (Tag.JOB, Tag.SOURCE))


def changed_tag(model: ModelView) -> str | None:
    """Return what was changed of a version's lineage since its registration; None for nothing known.

    Its tags are compared with its properties, which cannot be changed.
    """
    for tag in FIXED:
        fixed = model.properties.get(tag)
        if fixed is not None and fixed != model.tags.get(tag):
            return f"its tag {tag} was changed since its registration: it is {model.tags.get(tag)}, and was {fixed}"
    return None


def fault_of_registration(service: Workspace, model: ModelView, job: str) -> str | None:
    """Return why a version, or the metrics of its *job*, are not what they were at its registration.

    None if nothing is known to differ. Metrics are compared as far as rules of the gate were decided on them.

    Raises:
        ServiceError: the service does not answer.
    """
    if (changed := changed_tag(model)) is not None:
        return changed
    known = service.last_metrics(job)
    rules = [rule for rule in read_recorded(model.properties.get(Tag.RULES, "")) if rule.metric in known]
    return fault_of_rules(service, job, rules, {}, model.properties.get(Tag.REPLICATES, ""))


def _first(tags: Mapping[str, str]) -> list[str]:
    """Return the names of *tags* before the user's: all but metrics, parameters, data."""
    return [name for name in tags if not name.startswith((Tag.METRIC, Tag.PARAMETER, Tag.DATA))]
