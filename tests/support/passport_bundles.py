"""Change the bundles of a model's passport: their contents, their signatures, and what is around both."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

from aml_train.image.registry.referrers import attach_document
from aml_train.models.passport.envelope import BUNDLE, encode_statement
from aml_train.models.passport.issue import PASSPORT_FILE
from tests.support.passport_world import REPOSITORY, PassportWorld, new_signer

World = PassportWorld
Tampering = Callable[[World], object]


def kept(world: World, name: str = PASSPORT_FILE) -> dict[str, Any]:
    """Return a bundle that is kept with the model, as JSON."""
    found: dict[str, Any] = json.loads(world.passports.kept["digits", "7", name])
    return found


def keep(world: World, bundle: bytes, name: str = PASSPORT_FILE) -> None:
    """Keep a bundle in place of the issued one; name it by the tag, and attach it to the image."""
    world.passports.kept["digits", "7", name] = bundle
    if name == PASSPORT_FILE:
        world.retag(passport=f"sha256:{hashlib.sha256(bundle).hexdigest()}")
        with world.registry() as registry:
            attach_document(registry, REPOSITORY, world.image, artifact_type=BUNDLE, content=bundle)


def statement(world: World, name: str = PASSPORT_FILE) -> dict[str, Any]:
    """Return the statement of a bundle."""
    found: dict[str, Any] = json.loads(base64.b64decode(kept(world, name)["dsseEnvelope"]["payload"]))
    return found


def restate(world: World, change: Callable[[dict[str, Any]], object], *, resign: bool = False) -> None:
    """Change the statement, and keep the old signature or sign with another key."""
    stated = statement(world)
    change(stated)
    payload = encode_statement(stated)
    if resign:
        keep(world, new_signer().sign(payload))
        return
    bundle = kept(world)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    keep(world, json.dumps(bundle).encode())


def setting(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets a member of a predicate."""

    def change(stated: dict[str, Any]) -> None:
        place = stated["predicate"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def insider(change: Callable[[dict[str, Any]], object], name: str = PASSPORT_FILE) -> Tampering:
    """State something else with the right key: only looking again can find it."""

    def tamper(world: World) -> None:
        stated = statement(world, name)
        change(stated)
        keep(world, world.signer.sign(encode_statement(stated)), name)

    return tamper


def in_bundle(change: Callable[[dict[str, Any]], object], name: str = PASSPORT_FILE) -> Tampering:
    """Change what is around the signed contents."""

    def tamper(world: World) -> None:
        bundle = kept(world, name)
        change(bundle)
        keep(world, json.dumps(bundle).encode(), name)

    return tamper
