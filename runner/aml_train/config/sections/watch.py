"""``watch:``, ``retry:`` and ``cost:``: bounds of time, resubmission, price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from aml_train.config.job.model import Job
from aml_train.config.section import CheckedTree, inside, key, make, record, section
from aml_train.config.sections.stop import STOP, StopConfig
from aml_train.config.yaml.shapes import Choice, Duration, Number, Text
from aml_train.config.yaml.structures import Either, Items, Table

RESUME_INPUT: Final = "resume"
"""The input with the checkpoints of an earlier attempt."""

_MOST: Final = 1e9
_PRICE: Final = Number(noun="a price for an hour of a node", whole=False, minimum=0, maximum=_MOST)
_BOUND: Final = Number(noun="a number", whole=False, minimum=0.001, maximum=_MOST)


@section
class WatchConfig:
    """``watch:``; times in seconds, None for no bound."""

    timeout: float | None = key(
        Duration(), "Bound of the whole job, over all its attempts; no bound by default.", default=None
    )
    queue_timeout: float | None = key(
        Duration(), "Bound of the time before the job runs; no bound by default.", default=None
    )
    run_timeout: float | None = key(
        Duration(), "Bound of the time since the job runs; no bound by default.", default=None
    )
    logs: Literal["user", "all"] = key(
        Choice(words=("user", "all")),
        "Logs that are shown: `user` (the default), those of the job's processes; or `all`: AzureML's own, too.",
        default="user",
    )
    on_cancel: Literal["cancel", "detach"] = key(
        Choice(words=("cancel", "detach")),
        "Effect of an interruption on the job: `cancel` (the default), or `detach`: it continues.",
        default="cancel",
    )
    allow_failed: tuple[str, ...] = key(
        Items(item=Text(noun="a node's name"), noun="a list of nodes"),
        "Nodes of a pipeline job that may fail; none by default.",
        default=(),
    )
    stop: StopConfig | None = key(
        STOP, "Rules that are looked for while the job runs; see docs/stop.md.", default=None
    )


@section
class RetryConfig:
    """``retry:``"""

    preempted: int = key(
        Number(noun="a whole number", minimum=0, maximum=100),
        "How often a job whose nodes were taken back is submitted again; 0 by default.",
        default=0,
    )


@section
class ResumeConfig:
    """``resume:``: what a training that is submitted again continues from."""

    path: str = key(
        Text(
            noun="a folder below `outputs/`, such as `outputs/checkpoints`",
            pattern=r"outputs(?:/[\w.-]+)+/?",
            rule=inside,
            convert=lambda text: text.rstrip("/"),
        ),
        "Folder of the job's checkpoints. An attempt after a preemption gets it as the input `resume`, in `AZURE_ML_INPUT_resume`.",
    )
    metric: str = key(
        Text(noun="a metric"),
        "Metric that is logged with the step of the training, whose steps show that an attempt continues.",
    )
    every: int | None = key(
        Number(noun="a whole number", minimum=1, maximum=10**9),
        "Steps between two checkpoints: `aml-train jobs check-resume` demands that no more are lost.",
        default=None,
    )


@section
class Price:
    """The price of a node of one size for an hour, by tier; None if it is unknown."""

    dedicated: float | None = key(_PRICE, "Price of a dedicated node for an hour.", default=None)
    low_priority: float | None = key(
        _PRICE, "Price of a Spot node for an hour; by default the dedicated one, as the upper bound.", default=None
    )


@section
class CostConfig:
    """``cost:``; *prices* are by VM size in lower case, *where* is ``file:line``."""

    currency: str = key(
        Text(noun="a currency's three letters, such as `EUR`", pattern=r"[A-Z]{3}"),
        "Currency of the prices, for the report; `USD` by default.",
        default="USD",
    )
    prices: Mapping[str, Price] = key(
        Table(
            noun="a mapping of VM sizes",
            key=Text(
                noun="a VM size, such as `Standard_NC24ads_A100_v4`",
                pattern=r"[Ss]tandard_[A-Za-z0-9_-]{1,60}",
                convert=str.lower,
            ),
            value=Either(
                noun="a price, or a mapping with `dedicated` and `low-priority`",
                scalar=_PRICE,
                keys=record(
                    Price,
                    noun="a mapping with `dedicated` and `low-priority`",
                    hints={"spot": "write `low-priority`"},
                ),
                short="dedicated",
            ),
        ),
        "Price of a node for an hour, by VM size; a single price is that of dedicated nodes.",
        factory=dict,
    )
    max_node_hours: float | None = key(
        _BOUND,
        "Node hours after which the job is cancelled, over all its attempts; no bound by default.",
        default=None,
    )
    max_cost: float | None = key(
        _BOUND, "Cost after which the job is cancelled, over all its attempts; no bound by default.", default=None
    )
    where: str = "cost"

    @property
    def bounded(self) -> bool:
        """Whether there is a bound."""
        return self.max_node_hours is not None or self.max_cost is not None


WATCH: Final = record(WatchConfig, noun="a mapping")
RETRY: Final = record(RetryConfig, noun="a mapping")
RESUME: Final = record(ResumeConfig, noun="a mapping with `path` and `metric`")
COST: Final = record(CostConfig, noun="a mapping")


def resume_config(checked: CheckedTree, job: Job | None) -> ResumeConfig | None:
    """Make ``resume``; None without the section."""
    if not checked.has("resume"):
        return None
    if job is not None and job.kind != "command":
        what = f"`resume` belongs to command jobs, and this is a {job.kind} job"
        checked.fault(what, "resume", remedy="delete the key")
    elif job is not None and job.runconfig is not None and checked.values.get("sdk") != "v2":
        remedy = "write `sdk: v2`, or convert the run configuration to a job: aml-train convert"
        checked.fault("`resume` needs the SDK v2, which gives a job the input `resume`", "resume", remedy=remedy)
    elif job is not None and RESUME_INPUT in (job.document.get("inputs") or {}):
        remedy = f"give the job's input `{RESUME_INPUT}` another name"
        checked.fault("`resume` gives the job an input of this name, and it has one", "resume", remedy=remedy)
    return make(ResumeConfig, checked.section("resume"))


def cost_config(checked: CheckedTree) -> CostConfig:
    """Make ``cost``."""
    where = checked.place("cost").where if checked.has("cost") else CostConfig.where
    return make(CostConfig, checked.section("cost"), where=where)
