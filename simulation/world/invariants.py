"""The invariants: functions of the truth of a world, not of a client's word.

Each returns its violations as sentences; none means that it holds. :data:`INVARIANTS` has all of them.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from simulation.world.cluster import work_of
from simulation.world.ends import Ended
from simulation.world.oracle import logged_values, missed
from simulation.world.truth import TrueJob, Truth

Invariant = Callable[[Truth], Iterator[str]]

#: How a run can end: exit code → status words. docs/architecture.md has the table; a test compares them.
ENDINGS: Final[Mapping[int, frozenset[str]]] = {
    0: frozenset({"passed", "promoted", "rolled-back", "unchanged", "submitted"}),
    1: frozenset({"error"}),
    2: frozenset({"invalid"}),
    3: frozenset({"image-failed"}),
    4: frozenset({"tests-failed"}),
    5: frozenset({"job-failed"}),
    6: frozenset({"gate-failed"}),
    7: frozenset({"cancelled", "timed-out"}),
    8: frozenset({"service-error", "not-responding", "preempted"}),
    9: frozenset({"not-verified"}),
    10: frozenset({"outdated"}),
}
_CANDIDATE: Final = re.compile(r"candidate-[0-9a-f]{12}\.\d+\.\d+\.(?:[0-9a-f]{12}|host)\.(?P<until>\d+)\.[0-9a-f]+")
_LONGEST_LEASE: Final = 7 * 24 * 3600.0
_SHORTEST_SECRET: Final = 8


def no_false_green(truth: Truth) -> Iterator[str]:
    """A run that passed has a completed job in a tested digest, and its gate holds."""
    for end in truth.ends:
        if end.status != "passed" or end.command not in ("run", "attach"):
            continue
        who, project = f"{end.command} of {end.client}", truth.projects[end.project]
        job = truth.jobs.get(str(end.facts.get("job", "")))
        if job is None:
            yield f"{who} passed with the job {end.facts.get('job')}, which does not exist"
            continue
        if job.status != "Completed":
            yield f"{who} passed with the job {job.name}, which is {job.status}"
        if job.command.strip() != project.command.strip():
            yield f"{who} passed with the job {job.name}, which executes another script"
        yield from _tested(truth, who, job, project.key)
        values = logged_values(job.command)
        sides = _baselines(truth, end, job)
        if all(missed(project.rules, values, side) for side in sides):
            rules = ", ".join(f"{rule.metric} {rule.text}" for rule in missed(project.rules, values, sides[0]))
            yield f"{who} passed, and its job {job.name} does not meet: {rules}"


def _tested(truth: Truth, who: str, job: TrueJob, project: str) -> Iterator[str]:
    tries = [one for one in truth.tried if (one.digest, one.project) == (job.digest, project)]
    if not job.digest:
        yield f"{who} passed, and its job {job.name} has an environment without a digest: {job.image}"
    elif not any(one.passed for one in tries):
        yield f"{who} passed, and none of its tests have passed in {job.digest[:19]}, the image of {job.name}"
    for model in truth.models:
        if work_of(model.tags.get("aml-train.job", "")) != work_of(job.name):
            continue
        if model.tags.get("aml-train.image-digest") != job.digest:
            yield f"the model {model.name}:{model.version} records another image than its job {job.name} ran in"


def _baselines(truth: Truth, end: Ended, job: TrueJob) -> Sequence[Mapping[str, Sequence[float]] | None]:
    """Return the sides that the run may have been compared with; None for no baseline.

    There is certainly one if another run of main had passed, or a version had been promoted, before this run began.
    """
    project = truth.projects[end.project]
    work = work_of(job.name)
    words: tuple[str, ...]
    commands: tuple[str, ...]
    if project.baseline == "branch":
        others = [
            other
            for other in truth.jobs.values()
            if other.status == "Completed" and other.tags.get("aml-train.branch") == "main"
        ]
        words, commands = ("passed",), ("run", "attach")
    elif project.baseline == "stage":
        named = {one.tags.get("aml-train.job", "") for one in truth.models if one.stage in ("production", "archived")}
        others = [other for other in truth.jobs.values() if other.name in named]
        words, commands = ("promoted",), ("promote",)
    else:
        return [None]
    sides: list[Mapping[str, Sequence[float]] | None] = [
        logged_values(other.command) for other in others if work_of(other.name) != work
    ]
    certain = any(
        one.status in words
        and one.command in commands
        and one.ended <= end.began
        and truth.projects[one.project].branch == "main"
        and work_of(str(one.facts.get("job", ""))) != work
        for one in truth.ends
    )
    return sides if certain and sides else [*sides, None]


def one_paid_job(truth: Truth) -> Iterator[str]:
    """Work is paid for once: an attempt follows an ended one that did not complete."""
    works: dict[tuple[str, str], list[TrueJob]] = defaultdict(list)
    for job in truth.jobs.values():
        works[job.command, job.code].append(job)
        if job.executed > 1:
            yield f"the job {job.name} was executed {job.executed} times"
    for jobs in works.values():
        ordered = sorted(jobs, key=lambda job: (job.created, job.name))
        for before, after in itertools.pairwise(ordered):
            if before.status == "Completed" and (before.ended or 0) <= after.created:
                yield f"{after.name} was submitted although {before.name}, the same work, had completed"
            elif before.ended is None or before.ended > after.created:
                yield f"{after.name} was submitted while {before.name}, the same work, was live"


def one_model_per_work(truth: Truth) -> Iterator[str]:
    """Work that passed has exactly one model version; other work has none."""
    versions: dict[str, list[str]] = defaultdict(list)
    for model in truth.models:
        versions[work_of(model.tags.get("aml-train.job", ""))].append(f"{model.name}:{model.version}")
    passed = {
        work_of(str(end.facts.get("job")))
        for end in truth.ends
        if end.status == "passed" and end.command in ("run", "attach") and end.facts.get("model")
    }
    for work, names in versions.items():
        if len(names) > 1:
            yield f"{work} has {len(names)} model versions: {', '.join(sorted(names))}"
        jobs = [job for job in truth.jobs.values() if work_of(job.name) == work]
        if not any(job.status == "Completed" for job in jobs):
            yield f"{work} has the model {names[0]}, and none of its jobs completed"
    for work in sorted(passed - set(versions)):
        yield f"{work} passed, and has no model version"


def one_winner(truth: Truth) -> Iterator[str]:
    """A stage has one version, that of the last recorded change; it is never lost.

    A write of tags that arrives after its client has given it up counts as a change by someone else, such as in the portal: AzureML
    has no condition that would keep it out. The next promotion archives all other versions of the stage; a rollback refuses.
    """
    late = {one.key for one in truth.journal if one.kind == "late"}
    holders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for model in truth.models:
        holders[model.name, model.stage].append(model.version)
    for name, record in truth.promotions.items():
        pending, history = record.get("pending"), list(record.get("history") or ())
        stages = {str(one["stage"]) for one in history}
        for stage in sorted(stages):
            if pending is not None and pending["stage"] == stage:
                continue  # the next command finishes it
            last = [str(one["version"]) for one in history if one["stage"] == stage][-1]
            found = holders.get((name, stage), [])
            if found != [last] and not {(name, version) for version in {*found} ^ {last}} <= late:
                yield f"{stage} of {name} holds {', '.join(found) or 'nothing'}, and the last change put {last} there"
        if pending is not None and not any(end.killed or end.exit_code for end in truth.ends) and not truth.living:
            yield f"a change of {name} is pending, and no command failed"
    done = {str(one["id"]) for record in truth.promotions.values() for one in record.get("history") or ()}
    done |= {str(record["pending"]["id"]) for record in truth.promotions.values() if record.get("pending")}
    for end in truth.ends:
        if end.status in ("promoted", "rolled-back") and str(end.facts.get("change")) not in done:
            yield f"{end.command} of {end.client} ended as {end.status}, and the record has no such change"


def no_orphan(truth: Truth) -> Iterator[str]:
    """Sweeps reach what clients leave, and runs name or cancel their jobs."""
    for repository, tags in truth.tags.items():
        if not repository.endswith("-candidate"):
            continue
        for tag in tags:
            found = _CANDIDATE.fullmatch(tag)
            if found is None:
                yield f"{repository}:{tag} names no owner and no lease: no sweep removes it"
            elif float(found["until"]) > _present(truth) + _LONGEST_LEASE:
                yield f"{repository}:{tag} is leased for more than a week"
    if truth.ends and not truth.living:
        dead = {end.client for end in truth.ends if end.killed}
        for owner in truth.containers:
            if owner not in dead:
                yield f"a container of {owner} is left, and {owner} was not killed"
    for job in truth.jobs.values():
        if job.terminal or job.status == "CancelRequested":
            continue
        if truth.living or any(end.killed for end in truth.ends):
            continue
        if not any(_names(end, job.name) for end in truth.ends):
            yield f"{job.name} is {job.status}, and no run has said so"
        followers = [end for end in truth.ends if end.facts.get("job") == job.name]
        if followers and all(end.interrupted and end.command == "run" for end in followers):
            admitted = any("could not be cancelled" in end.message for end in followers)
            if not admitted:
                yield f"{job.name} is {job.status}, and every run that followed it was interrupted"


def _names(end: Ended, job: str) -> bool:
    """Return whether a run says that there may be such a job."""
    denied = "there is no job" in end.message
    return end.facts.get("job") == job or (job in f"{end.message} {end.hint}" and not denied)


def swept(truth: Truth) -> Iterator[str]:
    """After a clean-up no candidate is left, and each model has its image.

    It is carried out after a hundred days.
    """
    for repository, tags in truth.tags.items():
        if repository.endswith("-candidate") and (tags or truth.manifests.get(repository)):
            yield f"{repository} still has {len(tags)} tags and {len(truth.manifests.get(repository, ()))} manifests"
    for owner in truth.containers:
        yield f"a container of {owner} is left"
    for model in truth.models:
        digest = model.tags.get("aml-train.image-digest", "")
        if not any(digest in digests for digests in truth.manifests.values()):
            yield f"the image of {model.name}:{model.version}, {digest[:19]}, is gone"


def known_endings(truth: Truth) -> Iterator[str]:
    """Every command ends with a status of the table, and none with a fault of ours."""
    for end in truth.ends:
        who = f"{end.command} of {end.client}"
        if end.killed:
            continue
        if end.status not in ENDINGS.get(int(end.exit_code or 0), frozenset()):
            yield f"{who} ended with {end.exit_code} and {end.status!r}, which is no row of the table"
        elif end.exit_code == 1:
            yield f"{who} ended with a fault of aml-train: {end.message[-500:]}"
        elif end.exit_code and not end.message:
            yield f"{who} ended with {end.exit_code} and says nothing"


def nothing_lost(truth: Truth) -> Iterator[str]:
    """A change that a service acknowledged stays until a client removes it."""
    latest: dict[tuple[str, tuple[str, ...]], str | None] = {}
    for one in truth.journal:
        if one.kind == "untagged":
            _forget(latest, one.key)
            continue
        if one.kind == "job":
            # AzureML takes a second submission for an update, which replaces tags: a duplicate that arrives late does so.
            latest = {
                known: value for known, value in latest.items() if known[0] != "tags" or known[1][0] != one.key[0]
            }
        latest[one.kind, one.key] = one.value
    models = {(one.name, one.version) for one in truth.models}
    for (kind, key), value in latest.items():
        name = "/".join(key)
        match kind:
            case "job" if key[0] not in truth.jobs:
                yield f"the job {name} was acknowledged, and is not there"
            case "model" if (key[0], key[1]) not in models:
                yield f"the model {name} was acknowledged, and is not there"
            case "tags" if key[0] in truth.jobs and truth.jobs[key[0]].tags.get(key[1]) != value:
                yield f"the tag {name} was acknowledged as {value!r}, and is {truth.jobs[key[0]].tags.get(key[1])!r}"
            case "manifest":
                yield from _lost_manifest(truth, key, str(value))
            case "blob":
                yield from _lost_blob(truth, key, str(value))


def _forget(latest: dict[tuple[str, tuple[str, ...]], str | None], key: tuple[str, ...]) -> None:
    for one, value in list(latest.items()):
        same = one[1] == key
        # A manifest that is deleted by its digest takes its tags along.
        of_digest = (
            one[0] == "manifest" and one[1][0] == key[0] and key[-1].startswith("sha256:") and value == key[-1]
        )
        if same or of_digest:
            del latest[one]


def _lost_manifest(truth: Truth, key: tuple[str, ...], digest: str) -> Iterator[str]:
    repository, reference = key
    if digest not in truth.manifests.get(repository, frozenset()):
        yield f"the manifest {repository}:{reference} was acknowledged, and is not there"
    elif ":" not in reference and truth.tags.get(repository, {}).get(reference) != digest:
        yield f"the tag {repository}:{reference} was acknowledged as {digest[:19]}, and is another one"


def _lost_blob(truth: Truth, key: tuple[str, ...], md5: str) -> Iterator[str]:
    content = truth.blobs.get((key[0], key[1]))
    if content is None:
        yield f"the blob {key[1]} was acknowledged, and is not there"
    elif md5 and base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode() != md5:
        yield f"the blob {key[1]} was acknowledged with other contents"


def no_secret(truth: Truth) -> Iterator[str]:
    """No secret is in any text that others may read."""
    wanted = {name: text for name, text in truth.secrets.items() if len(text) >= _SHORTEST_SECRET}
    for place, shown in truth.sinks.items():
        for name, text in wanted.items():
            if text in shown:
                yield f"{place} shows a secret ({name})"


def _present(truth: Truth) -> float:
    return max([truth.now, *(end.ended for end in truth.ends)])


#: Those that hold at any time.
INVARIANTS: Final[Mapping[str, Invariant]] = {
    one.__name__: one
    for one in (
        no_false_green,
        one_paid_job,
        one_model_per_work,
        one_winner,
        no_orphan,
        known_endings,
        nothing_lost,
        no_secret,
    )
}


def violations(truth: Truth, invariants: Iterable[Invariant] = tuple(INVARIANTS.values())) -> list[str]:
    """Return the violations of all *invariants*, each with its name."""
    return [f"{one.__name__}: {text}" for one in invariants for text in one(truth)]
