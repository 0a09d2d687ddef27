"""Names of the tags on jobs and models. Later runs read them: never rename one."""

from __future__ import annotations

from typing import Final


class Tag:
    """The names of tags; some begin those of several."""

    # On every job; a model carries those of the job that wrote it.
    COMMIT: Final = "aml-train.commit"
    DIGEST: Final = "aml-train.image-digest"
    IMAGE: Final = "aml-train.image"
    ADDRESS: Final = "aml-train.image-address"
    TESTED: Final = "aml-train.tested"
    #: Followed by a name: another image of a pipeline, as JSON with `image`, `tested` and `nodes`.
    IMAGES: Final = "aml-train.image."
    FINGERPRINT: Final = "aml-train.fingerprint"
    #: A random mark of one submission: it shows who made the job of a name.
    SUBMISSION: Final = "aml-train.submission"
    VERSION: Final = "aml-train.version"
    #: What the job was submitted from: the branch, the repository (host and path), and the configuration's place in it.
    BRANCH: Final = "aml-train.branch"
    REPOSITORY: Final = "aml-train.repository"
    CONFIGURATION: Final = "aml-train.configuration"
    #: Followed by the name of an input: which data it is, ``NAME:VERSION`` of an asset, else where or what it is.
    DATA: Final = "aml-train.data."
    #: What the data were: marks of their contents, as JSON; see :mod:`aml_train.jobs.data`.
    DATA_IDENTITY: Final = "aml-train.data-identity"
    #: How the data changed while the job ran, so that its result cannot be reproduced.
    DATA_CHANGED: Final = "aml-train.data-changed"
    #: What the baseline was when the job was submitted: how it is configured, and which one that was; see :mod:`aml_train.pipeline.baselines`.
    BASELINE: Final = "aml-train.baseline"
    #: What the gate said: ``passed``, ``failed``, ``none`` where it has no rules, ``skipped`` where every rule was skipped.
    GATE: Final = "aml-train.gate"
    #: The rules that it was decided by, each with value, limit and verdict, as JSON.
    RULES: Final = "aml-train.gate-rules"
    #: The rule of ``watch.stop`` that the job was cancelled for, and what was found.
    STOPPED: Final = "aml-train.stopped"
    #: Followed by a branch's name: the verdict of its run on the job; see :mod:`aml_train.pipeline.branch_verdicts`.
    VERDICT: Final = "aml-train.verdict."
    #: The base of the image: its name and digest, or its id if it is only in the engine.
    BASE: Final = "aml-train.base"
    #: The workflow's run that submitted the job.
    RUN_URL: Final = "aml-train.run-url"
    #: Which stage of its life a model is in, such as ``production``.
    STAGE: Final = "aml-train.stage"
    JOB: Final = "aml-train.job"
    #: On a job that repeats another one: that one's name.
    RESUBMITTED: Final = "aml-train.resubmitted-from"
    #: On a job that was submitted again after a preemption: how many times that was, since the job was first asked for.
    RETRIES: Final = "aml-train.retries"
    #: On a job that has replicates: the input in which they differ, and the beginning of each fingerprint, in the order of the values.
    REPLICATES: Final = "aml-train.replicates"
    #: Properties of a job that declares `resume`: the folder of its checkpoints, and the metric whose steps show that it continues.
    RESUME: Final = "aml-train.resume"
    RESUME_METRIC: Final = "aml-train.resume-metric"
    #: What supersedes what: the group that runs belong to, and their order in it.
    GROUP: Final = "aml-train.group"
    SEQUENCE: Final = "aml-train.sequence"

    # On models only.
    EXPERIMENT: Final = "aml-train.experiment"
    #: The model's path, in our words: the service rewrites a model's own path into one of a datastore.
    SOURCE: Final = "aml-train.model-source"
    #: The node of a pipeline that wrote the model, and its run; of a sweep only the run of the best trial.
    NODE: Final = "aml-train.node"
    NODE_RUN: Final = "aml-train.node-run"
    #: Properties of a copy in another workspace: the resource id of the version that it is of, and the digest of its files.
    COPY_OF: Final = "aml-train.copy-of"
    FILES: Final = "aml-train.files"
    METRIC: Final = "aml-train.metric."
    PARAMETER: Final = "aml-train.parameter."
    #: SHA-256 of the passport's bundle.
    PASSPORT: Final = "aml-train.passport"
    #: How many tags there was no room for, by kind.
    LEFT_OUT: Final = "aml-train.left-out"


PROPERTY_FILES_NOT_KEPT: Final = "aml-emulator.files-not-kept"
"""A property of jobs of the local AzureML: the files that the job wrote outside its outputs, with sizes, for people."""

#: Bounds of a run's tags: https://learn.microsoft.com/azure/machine-learning/resource-limits-capacity#runs (50 of them at most);
#: of models the page says nothing.
KEY_LENGTH: Final = 100
VALUE_LENGTH: Final = 1000
#: Tags that a job's author may give it: a run has 50, and aml-train's own need up to 20 of them.
AUTHOR_TAGS: Final = 30


def check_author_tag(text: str) -> None:
    """Raise ValueError for the name of a tag or property that aml-train itself writes."""
    if text.lower().startswith("aml-train."):
        raise ValueError(f"`{text}` is one of aml-train's own")
