"""Execute a plan: target → image and tests → submit → watch → gate → register. Emits events; prints nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from aml_train.config import ClusterConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, CancelledError, ServiceError
from aml_train.core.events import (
    Event,
    ImageReady,
    JobStatusChanged,
    JobSubmitted,
    Listener,
    LogLine,
    Notice,
    RunFinished,
    Stage,
    StageFinished,
    StageStarted,
)
from aml_train.core.machine import expected
from aml_train.core.masking import Masker
from aml_train.core.units import size
from aml_train.image import Given, ImageSpec, JobImage, Tested, TestSpec
from aml_train.jobs import (
    TAG_ADDRESS,
    TAG_DIGEST,
    TAG_IMAGE,
    JobService,
    JobSpec,
    JobStatus,
    JobView,
    LiveJob,
    Pace,
    Spending,
    data_to_be,
    number_of,
    pin_data,
    placement_of,
    tell_to_cancel,
)
from aml_train.pipeline.baselines import Found, baseline_tags
from aml_train.pipeline.decide import Verdict
from aml_train.pipeline.evaluate import check_baseline, look_up_baseline
from aml_train.pipeline.follow import Following, Held
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import Options, Outcome
from aml_train.pipeline.submit import (
    choose_attempt,
    grouped,
    latest_attempt,
    named_job,
    supersede,
    tagged,
    why_submitted,
)


class OpenTarget(Protocol):
    """A target that is ready for work."""

    @property
    def service(self) -> JobService:
        """The workspace's jobs, metrics and models."""

    @property
    def pace(self) -> Pace:
        """How often this target may be asked."""

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Have the image built, tested and released in the target's registry, or find that it is."""

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Have the cluster that the job is to run on: find it, or make it."""

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image where the target's registry has it; build and run nothing."""


class Prewarm:
    """Loads the SDK in another thread from the moment on that a submission has become certain.

    It is a listener: the first line of a build or of tests says so.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._prepare: Callable[[], None] | None = None

    def arm(self, prepare: Callable[[], None]) -> None:
        """Say what is to be loaded. It must be safe to load again: a failure shows where it is needed."""
        self._prepare = prepare

    def start(self) -> None:
        """Begin, once."""
        if self._thread is None and self._prepare is not None:
            self._thread = threading.Thread(target=self._prepare, name="prepare-sdk", daemon=True)
            self._thread.start()

    def join(self) -> None:
        """Wait for the end of what was begun."""
        if self._thread is not None:
            self._thread.join()

    def __call__(self, event: Event) -> None:
        if isinstance(event, LogLine) and event.source in ("build", "tests"):
            self.start()


class Execution:
    """One execution of a plan.

    Args:
        plan: what to do.
        open_target: makes the target ready (for the local one: starts the emulator).
        options: see :class:`aml_train.pipeline.result.Options`.
        clock: time; passed in so that tests need not wait.
        listener: is told everything that happens.
        prewarm: is told as soon as a submission is certain.
        masker: knows the secrets that the job's logs are not to show.
    """

    def __init__(
        self,
        plan: Plan,
        open_target: Callable[[], OpenTarget],
        *,
        options: Options,
        clock: Clock,
        listener: Listener,
        prewarm: Prewarm | None = None,
        masker: Masker | None = None,
    ) -> None:
        self._plan = plan
        self._open_target = open_target
        self._options = options
        self._clock = clock
        self._listener = listener
        self._prewarm = prewarm or Prewarm()
        self._masker = masker
        self._held = Held(ours=not options.attach)
        self._settled = False
        # The baseline that there was when the run began, as far as it was looked up.
        self._at_start: Found | None = None
        # The job without its image and attempt; once the workspace has been asked, with versions in place of labels.
        self._job = plan.job
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Execute the plan.

        Returns:
            the outcome, with the exit code and status word of the table of endings; expected errors are in it.
        """
        outcome = self.outcome
        try:
            self._run()
        except AmlTrainError as error:
            self._fail(error)
        except OSError as error:
            limit = expected(error)
            if limit is None:
                raise
            self._fail(limit)
        except KeyboardInterrupt:
            self._fail(self._interrupted())
        self._listener(
            RunFinished(
                status=outcome.status,
                exit_code=outcome.exit_code,
                message=outcome.message,
                hint=outcome.hint,
                facts=outcome.facts(),
            )
        )
        return outcome

    def _fail(self, error: AmlTrainError) -> None:
        self.outcome.status, self.outcome.exit_code = error.status, error.exit_code
        self.outcome.message, self.outcome.hint = error.message, error.hint

    @contextlib.contextmanager
    def _stage(self, name: Stage, title: str) -> Iterator[list[str]]:
        """Report a stage. The block puts its summary, one line, into the list that it is given."""
        self._listener(StageStarted(stage=name, title=title))
        began = self._clock.now()
        summary: list[str] = []
        yield summary
        self._listener(StageFinished(stage=name, summary=" ".join(summary), seconds=self._clock.now() - began))

    def _run(self) -> None:
        plan, options = self._plan, self._options
        for notice in plan.notices:
            self._listener(Notice(text=notice))
        with self._stage("target", plan.names.description) as summary:
            target = self._open_target()
            summary.append("ready")
        sdk = "v2" if plan.job.runconfig is None else "v1"
        self._prewarm.arm(lambda: target.service.prepare(sdk))
        if options.fresh:
            self._prewarm.start()
        if options.job is None:
            self._job = pin_data(plan.job, target.service)
        if options.attach:
            view = self._attach(target)
            if options.decide and (options.wait or view.status.terminal):
                self._at_start = look_up_baseline(target.service, plan.gate, plan.baseline, origin=plan.origin)
        else:
            if options.decide:
                data = data_to_be(self._job)
                self._at_start = check_baseline(
                    target.service, plan.gate, plan.baseline, origin=plan.origin, data=data
                )
            Spending(plan.cost, target.service, plan.cluster).check(placement_of(plan.job.document))
            image = self._image(target)
            view = self._submit(target, image)
        if options.wait or view.status.terminal:
            view = self._watch(target.service, view, target.pace)
            if not options.decide:
                self._pass("passed", f"The job {view.name} completed.")
                return
            decision = self._verdict(target.service).carry_out(view)
            self._pass("passed", f"The job completed{decision.clause}.")
        else:
            after = "attach` follows and gates it" if options.decide else f"jobs logs -f {view.name}` follows it"
            self._pass("submitted", f"The job {view.name} is submitted, and goes on by itself. `aml-train {after}.")

    def _pass(self, status: str, message: str) -> None:
        self.outcome.status, self.outcome.exit_code, self.outcome.message = status, 0, message

    def _image(self, target: OpenTarget) -> JobImage:
        plan = self._plan
        if plan.image is None:
            image: JobImage = Given(environment=plan.environment)
            self._listener(Notice(text="The job's own environment is used as it is given, not tested."))
        else:
            commit = str(plan.commit) if plan.commit else None
            tests = plan.tests
            if tests is not None and self._options.keep_tests:
                tests = dataclasses.replace(tests, keep=True)
            # A proposed commit registers nothing, and its configuration names no secret of the runner.
            spec = plan.image if self._options.register else plan.image.proposed()
            image = target.ensure_image(spec, tests, force=self._options.force_build, commit=commit)
        self.outcome.image = image
        return image

    def _submit(self, target: OpenTarget, image: JobImage) -> JobView:
        service = target.service
        code = self._job.code
        title = (
            f"Submit the job, with {len(code.entries)} files of code ({size(code.size)})"
            if code
            else "Submit the job"
        )
        with self._stage("submit", title) as summary:
            found: JobView | None = None
            if self._options.name is not None:
                job = named_job(self._job, service, image, self._options.name)
            else:
                fresh = self._options.fresh
                choice = choose_attempt(
                    self._job, service, image, fresh=fresh, lost=lambda view: self._stop(service, view)
                )
                job, found = choice.job, choice.found
                if found is None:
                    why = why_submitted(self._job, service, image, choice.before, fresh=fresh)
                    self._listener(Notice(text=why))
            self._held.spec = tagged(
                grouped(job, self._options.group), baseline_tags(self._plan.baseline, self._at_start)
            )
            if found is None:
                view = self._make(target, self._held.spec)
            else:
                self._answer_for(found.name, service)
                view = found
            self.outcome.job, self.outcome.attached = view, found is not None
            if found is None:
                summary.append(f"submitted {job.name}")
            else:
                word = (
                    "which has completed" if view.status is JobStatus.COMPLETED else f"which is {view.status.value}"
                )
                summary.append(f"attached to {job.name}, {word}")
            self._listener(
                JobSubmitted(
                    job=view.name,
                    attached=found is not None,
                    studio_url=view.studio_url,
                    attempt=number_of(view.name),
                )
            )
        return view

    def _make(self, target: OpenTarget, job: JobSpec) -> JobView:
        options, service = self._options, target.service
        if self._plan.cluster is not None:
            target.ensure_compute(self._plan.cluster, self._clock)
        if options.supersede and options.group is not None:
            supersede(service, options.group, self._plan.job.stem, clock=self._clock, listener=self._listener)
        live = self._answer_for(job.name, service)
        self._prewarm.start()
        return live.submit(job)

    def _stop(self, service: JobService, lost: JobView) -> None:
        """Have a job cancelled that AzureML has lost contact with: it may come back, and never are there two."""
        self._listener(
            Notice(
                text=f"The job {lost.name} does not answer: cancelling it before the next attempt.", level="warning"
            )
        )
        tell_to_cancel(service, lost.name, clock=self._clock)

    def _answer_for(self, job: str, service: JobService) -> LiveJob:
        self._held.live = LiveJob(job, service, self._clock, self._listener)
        return self._held.live

    def _following(self, service: JobService) -> Following:
        return Following(
            self._plan,
            service,
            clock=self._clock,
            listener=self._listener,
            masker=self._masker,
            outcome=self.outcome,
            held=self._held,
        )

    def _verdict(self, service: JobService) -> Verdict:
        return Verdict(
            self._plan,
            service,
            options=self._options,
            clock=self._clock,
            listener=self._listener,
            outcome=self.outcome,
            stage=self._stage,
            settled=self._settled,
            masker=self._masker,
            at_start=self._at_start,
        )

    def _attach(self, target: OpenTarget) -> JobView:
        """Find the job that was submitted before, and tell what it was submitted from."""
        service, wanted = target.service, self._options.job
        with self._stage("submit", f"Find the job {wanted}" if wanted else "Find the job") as summary:
            view = service.find(wanted) if wanted else self._latest(target)
            if view is None:
                pinned = self._job.document != self._plan.job.document
                newer = " It may have been submitted with an earlier version of its data." if pinned else ""
                raise ServiceError(
                    f"There is no job {wanted} in {self._plan.names.description}."
                    if wanted
                    else "No job was submitted from this commit and configuration.",
                    hint=f"Submit it first: aml-train run --no-wait. Or name the job: aml-train attach JOB.{newer}",
                )
            self.outcome.job, self.outcome.attached = view, True
            self._answer_for(view.name, service)
            self._tell_image(view)
            self._listener(
                JobSubmitted(job=view.name, attached=True, studio_url=view.studio_url, attempt=number_of(view.name))
            )
            summary.append(f"{view.name} is {view.status.value}")
        return view

    def _latest(self, target: OpenTarget) -> JobView | None:
        plan = self._plan
        image = Given(environment=plan.environment) if plan.image is None else target.find_image(plan.image)
        return None if image is None else latest_attempt(self._job, target.service, image)

    def _tell_image(self, view: JobView) -> None:
        """Tell the image of a job that is attached to, as its tags have it."""
        tags = view.tags
        if tags.get(TAG_IMAGE) and tags.get(TAG_DIGEST):
            self._listener(
                ImageReady(
                    reference=tags[TAG_IMAGE], digest=tags[TAG_DIGEST], address=tags.get(TAG_ADDRESS, ""), how="found"
                )
            )
        else:
            self._listener(Notice(text="The job's environment was used as it was given, not tested."))

    def _watch(self, service: JobService, view: JobView, pace: Pace) -> JobView:
        """Follow the job, and the attempts after it, to the end; return the job that completed."""
        with self._stage("watch", "Follow the job") as summary:
            # A job of this run may have completed before it was looked at: its log has not been seen, nor its metrics settled.
            if view.status is JobStatus.COMPLETED and self.outcome.attached:
                self._settled = True
                self._held.live, self.outcome.job_ended = None, view.status.value
                self._listener(JobStatusChanged(job=view.name, status=view.status.value))
            else:
                view = self._following(service).run(view, pace)
            self._held.live = None
            summary.append("completed" if number_of(view.name) == 1 else f"completed as {view.name}")
        return view

    def _interrupted(self) -> CancelledError:
        """Let go of the live job, or cancel it, if there is one."""
        if self._held.live is not None:
            # Who attached to a job did not ask for it.
            cancel = self._plan.watch.on_cancel == "cancel" and self._held.ours
            return self._held.live.interrupt(cancel=cancel)
        return self._after_the_end()

    def _after_the_end(self) -> CancelledError:
        job, ended = self.outcome.job, self.outcome.job_ended
        if job is None:
            return CancelledError("Interrupted before a job was submitted.")
        text = f"Interrupted after the end of the job {job.name}" + (f", which is {ended}" if ended else "")
        if ended == JobStatus.COMPLETED.value and self.outcome.decision is None and self._options.decide:
            return CancelledError(f"{text}: it was not gated.", hint=f"Gate it: aml-train attach {job.name}")
        return CancelledError(f"{text}.")
