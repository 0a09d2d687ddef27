"""Documents of a verified passport: a CycloneDX ML-BOM, and a model card.

CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/): a component of the type ``machine-learning-model`` with a ``modelCard``.
The card has the metadata block and the headings that model hubs read (https://huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from aml_train.core.version import __version__
from aml_train.models.passport.values import Verification

_NAMESPACE: Final = uuid.UUID("6f1f1c1e-0e0c-5a47-9d5b-6f6b2f4b9a11")


def ml_bom(found: Verification, description: str | None = None) -> dict[str, Any]:
    """Return the ML-BOM of a verified model, the same for the same passport.

    Args:
        found: the verification, whose passport holds.
        description: the model's.
    """
    stated = found.statement["predicate"]
    model, files = stated["model"], stated["files"]
    identity = json.dumps(found.statement, sort_keys=True).encode()
    component = {
        "type": "machine-learning-model",
        "bom-ref": f"model/{model['name']}@{model['version']}",
        "name": model["name"],
        "version": model["version"],
        **({"description": description} if description else {}),
        "hashes": [{"alg": "SHA-256", "content": files["sha256"]}],
        "modelCard": {
            "modelParameters": {
                "datasets": [
                    {"type": "dataset", "name": name, "contents": {"url": value}}
                    for name, value in (stated.get("data") or {}).items()
                ]
            },
            "quantitativeAnalysis": {
                "performanceMetrics": [
                    {"type": name, "value": str(value)} for name, value in (stated.get("metrics") or {}).items()
                ]
            },
        },
        "properties": list(_properties(stated, found)),
    }
    parts = list(_components(stated))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, hashlib.sha256(identity).hexdigest())}",
        "version": 1,
        "metadata": {
            "timestamp": stated["issued"]["at"],
            "tools": {"components": [{"type": "application", "name": "aml-train", "version": __version__}]},
            "component": component,
        },
        "components": parts,
        "dependencies": [{"ref": component["bom-ref"], "dependsOn": [one["bom-ref"] for one in parts]}],
    }


def _components(stated: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the model rests on: image, code, data."""
    image, code = stated.get("image"), stated.get("code")
    if image and image.get("digest"):
        name, _, digest = str(image["reference"]).partition("@")
        yield {
            "type": "container",
            "bom-ref": f"image/{digest}",
            "name": name,
            "version": digest,
            "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
        }
    if code:
        source = stated.get("source") or {}
        yield {
            "type": "application",
            "bom-ref": f"code/{code['sha256']}",
            "name": source.get("repository") or "code snapshot",
            "version": source.get("commit") or code["sha256"],
            "hashes": [{"alg": "SHA-256", "content": code["sha256"]}],
        }
    for name, value in (stated.get("data") or {}).items():
        yield {"type": "data", "bom-ref": f"data/{name}", "name": name, "version": value}


def _properties(stated: Mapping[str, Any], found: Verification) -> Iterator[dict[str, str]]:
    yield {"name": "aml-train:signer", "value": found.signer or "not proved"}
    yield {"name": "aml-train:gate", "value": stated["gate"]["word"]}
    for rule in stated["gate"]["rules"]:
        yield {"name": f"aml-train:gate:{rule['metric']}", "value": rule["reason"]}
    for name, value in (stated.get("parameters") or {}).items():
        yield {"name": f"aml-train:parameter:{name}", "value": value}
    for claim in found.claims:
        yield {"name": f"aml-train:claim:{claim.name}", "value": claim.basis}


def model_card(found: Verification, description: str | None = None) -> str:
    """Return the model card of a verified model, in Markdown."""
    stated = found.statement["predicate"]
    model = stated["model"]
    head = {"model_name": model["name"], "model_version": model["version"], "library_name": model["type"]}
    if data := stated.get("data"):
        head["datasets"] = sorted(data.values())
    lines = ["---", yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip(), "---", ""]
    lines += [f"# {model['name']} {model['version']}", ""]
    lines += [*_quoted(description), ""] if description else []
    lines += _section("Metrics", ("Metric", "Value"), (stated.get("metrics") or {}).items())
    rules = [(one["metric"], one["rule"], one["verdict"], one["reason"]) for one in stated["gate"]["rules"]]
    lines += _section("Gate", ("Metric", "Rule", "Verdict", "Reason"), rules)
    lines += _section("Training data", ("Input", "Version"), (data or {}).items())
    lines += _section("Parameters", ("Parameter", "Value"), (stated.get("parameters") or {}).items())
    lines += _section("Origin", ("Fact", "Value"), _origin(stated))
    claims = [(claim.name, claim.basis, claim.detail) for claim in found.claims]
    lines += [f"## Verification\n\nSigned by {found.signer or 'an unverified signer'}.", ""]
    lines += _table(("Claim", "Basis", "Detail"), claims)
    return "\n".join(lines).rstrip() + "\n"


def _origin(stated: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (stated.get("source") or {}).items()
    if run := (stated.get("workflow") or {}).get("run"):
        yield "workflow run", run
    yield "job", stated["job"]["name"]
    if image := stated.get("image"):
        yield "image", image["reference"]
        yield "base", image.get("base") or "unknown"
    if tests := stated.get("tests"):
        yield "tests", f"{tests.get('command')}: {tests.get('passed')} passed, {tests.get('at')}"
    yield "files", f"{stated['files']['files']}, sha256 {stated['files']['sha256']}"


def _quoted(description: str) -> Iterator[str]:
    """Yield the description as a quotation, which cannot look like a section.

    It can be changed after signing.
    """
    yield from (f"> {line}".rstrip() for line in description.splitlines())
    yield ">\n> (from the registration; the passport does not cover it)"


def _section(title: str, head: tuple[str, ...], rows: Any) -> list[str]:
    rows = list(rows)
    return [f"## {title}", "", *_table(head, rows), ""] if rows else []


def _table(head: tuple[str, ...], rows: Any) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(_cell(one) for one in row)} |" for row in rows)]


def _cell(value: object) -> str:
    """Return a value as a cell: text of a job may hold anything."""
    text = " ".join(str(value).split())
    for sign in "\\|<>[]`*_#":
        text = text.replace(sign, f"\\{sign}")
    return text
