"""The readiness checks as a step of the image stage: look once, keep the facts beside the image, judge at each run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aml_train.core.answers import decode
from aml_train.core.errors import ImageError
from aml_train.core.events import ImageChecked, Listener, StageFinished, StageStarted
from aml_train.core.threads import CancelToken
from aml_train.image import artifact
from aml_train.image.readiness.facts import Facts, check_facts
from aml_train.image.readiness.judge import failure, judge, probe_key, summary
from aml_train.image.readiness.run import look_into
from aml_train.image.registry.client import Registry
from aml_train.image.spec import CheckPolicy

if TYPE_CHECKING:
    from docker import DockerClient

FACTS_TYPE: Final = "application/vnd.aml-train.image-facts.v1+json"
_HINT: Final = "Remove that tag from the registry; the image is then looked into again."


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The checks of one image."""

    policy: CheckPolicy
    listener: Listener

    def look(self, engine: DockerClient, image_id: str, token: CancelToken) -> Facts:
        """Look into the image, which the engine has, and judge.

        Raises:
            ImageError: if a check fails, or there was no result.
            StoppedError: if *token* was set meanwhile.
        """
        started = self._start()
        facts = look_into(engine, image_id, token=token)
        self._judge(facts, started, cached=False)
        return facts

    def recall(self, facts: Facts) -> None:
        """Judge facts that were known already; raise ImageError if a check fails."""
        self._judge(facts, self._start(), cached=True)

    def _start(self) -> float:
        self.listener(StageStarted(stage="check", title="checks of the image: AzureML, InfiniBand"))
        return time.monotonic()

    def _judge(self, facts: Facts, started: float, *, cached: bool) -> None:
        findings = judge(facts, self.policy)
        self.listener(ImageChecked(findings=findings, cached=cached, where=self.policy.where))
        if (error := failure(findings)) is not None:
            raise error
        text = summary(findings) + (", as it was found before" if cached else "")
        seconds = time.monotonic() - started
        self.listener(StageFinished(stage="check", summary=text, seconds=seconds, skipped=cached))


def facts_tag(digest: str) -> str:
    """Return the tag of what this version's probe found in the image *digest*."""
    return f"facts-{digest.removeprefix('sha256:')[:40]}-{probe_key()}"


def store_facts(registry: Registry, repository: str, digest: str, facts: Facts) -> None:
    """Keep what was found in the image of manifest *digest*."""
    content = json.dumps({"digest": digest, "facts": facts}, sort_keys=True).encode()
    artifact.store(registry, repository, facts_tag(digest), media_type=FACTS_TYPE, content=content, subject=digest)


def load_facts(registry: Registry, repository: str, digest: str) -> Facts | None:
    """Return what this version's probe found in the image of manifest *digest*, or None where it was not looked into.

    Raises:
        ImageError: if there is something else under the tag.
    """
    tag = facts_tag(digest)
    content = artifact.load(registry, repository, tag, media_type=FACTS_TYPE, noun="record of facts", hint=_HINT)
    if content is None:
        return None
    where = f"the record of facts {registry.host}/{repository}:{tag}"
    try:
        document = decode(content)
        if document["digest"] != digest:
            raise ImageError(f"{where} is about another image", hint=_HINT)
        check_facts(document["facts"])
        facts: Facts = document["facts"]
    except (KeyError, TypeError, ValueError) as error:
        raise ImageError(f"{where} is damaged: {error}", hint=_HINT) from error
    return facts
