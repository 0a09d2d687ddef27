"""A policy file: whose signatures of a passport count, and what it must show."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aml_train.config.section import PATH, key, make, record, section
from aml_train.config.sections.passport import REQUIRE, Requirement
from aml_train.config.sources import Reader
from aml_train.config.yaml.nodes import Faults
from aml_train.config.yaml.shapes import Text
from aml_train.config.yaml.source import absolute
from aml_train.config.yaml.structures import Items


@section
class IdentityConfig:
    """One of ``identities`` of a policy: whose Sigstore certificates count."""

    issuer: str = key(
        Text(noun="an address", pattern=r"https://\S+"),
        "Issuer of the identity, such as `https://token.actions.githubusercontent.com`.",
    )
    subject: str = key(
        Text(noun="an identity"),
        "Identity in the certificate, such as `https://github.com/OWNER/REPO/.github/workflows/train.yml@refs/heads/main`; "
        "`*` stands for any characters.",
    )


@section
class PolicyConfig:
    """A policy file: who may sign, and what a passport must show. *where* is the file's name; paths are absolute."""

    keys: tuple[Path, ...] = key(
        Items(item=PATH, noun="a list of files", least=1),
        "Files of public keys (PEM) whose signatures count.",
        default=(),
    )
    identities: tuple[IdentityConfig, ...] = key(
        Items(item=record(IdentityConfig, noun="a mapping with `issuer` and `subject`"), noun="a list", least=1),
        "Identities whose Sigstore certificates count.",
        default=(),
    )
    trust: Path | None = key(
        PATH,
        "Client trust configuration (JSON) of another instance of Sigstore than the public one.",
        default=None,
        name="trust-config",
    )
    require: tuple[Requirement, ...] = key(
        REQUIRE, "Requirements that a passport must meet; `[signature]` by default.", default=("signature",)
    )
    where: str = ""


_POLICY: Final = record(PolicyConfig, noun="a mapping with `keys` or `identities`")


def load_policy(file: Path, *, directory: Path) -> PolicyConfig:
    """Read a policy file.

    Args:
        file: the file; relative paths start from *directory*.

    Raises:
        InvalidError: it cannot be read, or has a fault.
    """
    reader = Reader(base=absolute(directory), faults=Faults())
    path = absolute(reader.base / file)
    tree = reader.read(path)
    reader.faults.raise_if_any()
    if tree is None:  # pragma: no cover - only after a fault
        raise AssertionError("a policy is missing without a fault")
    values = _POLICY.check(tree, "", reader.faults)
    if not reader.faults and not {"keys", "identities"} & values.keys():
        reader.faults.add(
            tree.mark, "neither `keys` nor `identities` is given", why="no one could sign", remedy="name one"
        )
    reader.faults.raise_if_any()
    keys = tuple(absolute(path.parent / one) for one in values.get("keys", ()))
    trust = absolute(path.parent / values["trust-config"]) if "trust-config" in values else None
    return make(PolicyConfig, values, keys=keys, trust=trust, where=tree.mark.file)
