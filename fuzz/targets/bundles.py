"""Passports: bundles, statements, manifests of files, MLmodel files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from aml_train.core.answers import Answer
from aml_train.models.layout import fault_of_layout, fault_of_ml_model
from aml_train.models.passport.envelope import BadBundleError, encode_statement, key_bundle, read_bundle
from aml_train.models.passport.manifest import FileManifest, read_manifest
from fuzz.target import Target, as_bytes, require


def seeds() -> Sequence[str]:
    """Return a bundle, its statement, and an MLmodel file."""
    manifest = FileManifest(digests={"MLmodel": "0a" * 32, "data/weights.bin": "1b" * 32}, size=10)
    statement = manifest.statement("digits")
    return [
        key_bundle(encode_statement(statement), b"signature", "0" * 64).decode(),
        json.dumps(statement),
        "artifact_path: model\nflavors:\n  python_function: {loader_module: x}\nsignature: {inputs: '[]'}\nutc_time_created: 2026-01-01\n",
    ]


def check(text: str) -> None:
    """Read a text as each of them."""
    content = as_bytes(text)
    statements = []
    try:
        bundle = read_bundle(content)
        require(
            (bundle.key_hint is None) != (bundle.certificate is None),
            "a bundle names neither a key nor a certificate",
        )
        statements.append(bundle.statement)
    except BadBundleError as error:
        require(str(error), "a refusal says nothing")
    with contextlib.suppress(ValueError, RecursionError):
        statements.append(Answer(json.loads(content), ValueError))
    for statement in statements:
        try:
            manifest = read_manifest(statement, "digits")
        except ValueError as error:
            require(str(error), "a refusal says nothing")
        else:
            require(manifest.digests and manifest.fault is None, "a manifest with a fault is accepted")
            require(all(len(digest) == 64 for digest in manifest.digests.values()), "a digest is none")
            bytes.fromhex(manifest.root)
            require(not manifest.difference(manifest), "a manifest differs from itself")
    fault = fault_of_ml_model(content)
    require(fault is None or fault.startswith("MLmodel"), f"an odd fault: {fault}")
    for kind in ("mlflow_model", "triton_model", "custom_model"):
        fault_of_layout(kind, text.split("\n")[:20])


TARGET = Target(
    kind="text",
    reads=("aml_train.models.passport.envelope", "aml_train.models.passport.manifest", "aml_train.models.layout"),
    seeds=seeds,
    check=check,
    words=(
        '"payload"',
        '"sig"',
        '"hint"',
        '"digest"',
        '"name"',
        '"../x"',
        '"a//b"',
        "flavors:",
        "2020-99-99",
        "MLmodel",
        "config.pbtxt",
        "==",
    ),
    mutate=lambda mutator, text: mutator.json(text),
)
