"""Train, register and sign a model, as a process that knows nothing but the environment. Usage: ``passport_worker.py STEP ARGUMENTS``.

Each step prints JSON on its last line. The clients are the unmodified azure-ai-ml, azure-identity and azure-storage-blob.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from aml_train.azure.sdk_v2 import AzureV2
from aml_train.config.sections.gate import GateRule
from aml_train.config.sections.model import ModelConfig
from aml_train.config.sections.passport import PassportConfig
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.files import FileSet
from aml_train.core.threads import CancelToken
from aml_train.gate.decide import Evidence, decide_gate
from aml_train.gate.rules import parse_rule
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import attach_document
from aml_train.jobs.spec import JobTemplate, make_job
from aml_train.models.passport.issue import issue_passport
from aml_train.models.passport.verify import Verifier
from aml_train.models.register import lineage_tags, register_model
from aml_train.pipeline.passport import make_signer, open_verifier
from aml_train.pipeline.target import Host
from tests.integration.models.promotion_worker import tested

MODEL = "digits"
RULES = (GateRule(metric="acc", rule=parse_rule(">= 0.8"), where="aml-train.yml:5"),)


def opened() -> Verifier:
    target = TargetConfig(name="azure", kind="azure")
    return open_verifier(Host(environ=dict(os.environ)), target, Path(), lambda _event: None, policy=None)


def prepare(*, port: int, folder: str, mark: str = "", accuracy: float = 0.9) -> dict[str, Any]:
    """Train with a code snapshot in an image with attestations, register, and sign; each *mark* is another image."""
    verifier = opened()
    service = verifier.evidence.service
    assert isinstance(service, AzureV2)
    image = tested(port, mark)
    with Registry(f"http://localhost:{port}") as registry:
        manifest = registry.get_manifest("digits", image.digest)
        assert manifest is not None
        provenance = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "digits", "digest": {"sha256": image.digest.removeprefix("sha256:")}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {},
        }
        content = json.dumps(provenance).encode()
        attach_document(registry, "digits", manifest, artifact_type="application/vnd.in-toto+json", content=content)
    code = FileSet.collect(Path(folder) / "code")
    template = JobTemplate(
        document={
            "type": "command",
            "command": f"metric acc 1 {accuracy}\nwrite outputs/model/weights 7{mark}\nwrite outputs/model/config 8",
            "compute": "azureml:local-cluster",
            "experiment_name": "passport",
            "code": str(code.root),
        },
        directory=Path(folder),
        code=code,
        code_digest=code.digest(),
        scope="test",
        stem="digits",
        tags={"aml-train.commit": "c" * 40},
    )
    job = service.submit(make_job(template, {"": image}, 1), CancelToken()).name
    while not service.details(job).status.terminal:
        time.sleep(0.05)
    view = service.find(job)
    assert view is not None
    decision = decide_gate(RULES, Evidence(histories={"acc": service.metric_history(job, "acc")}))
    tags = lineage_tags(view, metrics=service.last_metrics(job), decision=decision)
    spec = ModelConfig(name=MODEL, path="outputs/model", type="custom_model")
    model, _ = register_model(service, spec, job=job, tags=tags)
    signer = make_signer(PassportConfig(key_file=Path(folder) / "signing.pem", passphrase_env="PASS"), os.environ)
    assert signer is not None
    made = issue_passport(verifier.evidence, signer, model, view, decision, RULES)
    return {
        "job": job,
        "digest": image.digest,
        "path": model.path,
        "left_out": made.left_out,
        "statement": json.loads(made.bundle.payload),
    }


def tamper(*, path: str) -> object:
    """Change one byte of a model's file in the storage; return its blob's name."""
    verifier = opened()
    model = verifier.evidence.service.models(MODEL)[0]
    store = verifier.evidence.store
    data = store._data  # type: ignore[attr-defined]
    from aml_train.azure.blob.address import parse_address

    where = data.locate(parse_address(model.path))
    storage = data.storage(where.datastore)
    entry = storage.find(f"{where.path.rstrip('/')}/{path}")
    content = bytearray(b"".join(storage.chunks(entry)))
    content[-1] ^= 1
    md5 = hashlib.md5(content, usedforsecurity=False).digest()
    storage.upload(entry.name, iter([bytes(content)]), len(content), md5=md5)
    return entry.name


if __name__ == "__main__":
    step, arguments = sys.argv[1:]
    print(json.dumps(globals()[step](**json.loads(arguments))))
