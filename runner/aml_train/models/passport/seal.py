"""Seals: signed statements of a branch's verdict on a job, kept where passports are."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from aml_train.core.answers import Answer
from aml_train.models.catalogue import PassportStore
from aml_train.models.passport.envelope import BadBundleError, Signer, encode_statement, read_bundle
from aml_train.models.passport.manifest import STATEMENT
from aml_train.models.passport.trust import Trust

SEAL_TYPE: Final = "https://aml-train.org/verdict/v1"
#: Stands where passports have a model: no name of a model begins with a dot.
_JOBS: Final = ".jobs"


def seal_verdict(store: PassportStore, signer: Signer, job: str, branch: str, facts: Mapping[str, Any]) -> None:
    """Sign the *facts* of a verdict of *branch* on *job*, and keep them; the same ones are not signed again.

    Args:
        facts: plain values, among them ``identity``, the SHA-256 of what the job is.

    Raises:
        PassportError: it cannot be signed.
        ServiceError: the storage refuses or does not answer.
    """
    predicate = {**facts, "job": job, "branch": branch}
    with contextlib.suppress(BadBundleError):
        if dict(read_bundle(store.read(_JOBS, job, _name(branch))).statement.mapping("predicate")) == predicate:
            return
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": job, "digest": {"sha256": facts["identity"]}}],
        "predicateType": SEAL_TYPE,
        "predicate": predicate,
    }
    store.write(_JOBS, job, _name(branch), signer.sign(encode_statement(statement)))


def read_seal(store: PassportStore, trust: Trust, job: str, branch: str) -> Answer | str:
    """Return the facts that were sealed, or why there are none that count.

    Raises:
        ServiceError: the storage refuses or does not answer.
    """
    content = store.read(_JOBS, job, _name(branch))
    if not content:
        return "it is not sealed: nobody signed it"
    try:
        bundle = read_bundle(content)
        signature = trust.check(bundle)
        if signature.signer is None:
            return f"its seal does not count: {signature.detail}"
        statement = bundle.statement
        stated = statement.at("predicate")
        named = [
            statement.optional_text("predicateType"),
            stated.optional_text("job"),
            stated.optional_text("branch"),
        ]
    except BadBundleError as error:
        return f"its seal cannot be used: {error}"
    return stated if named == [SEAL_TYPE, job, branch] else "its seal is about something else"


def _name(branch: str) -> str:
    return f"{hashlib.sha256(branch.encode(errors='surrogatepass')).hexdigest()[:16]}.sigstore.json"
