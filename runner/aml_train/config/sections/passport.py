"""``passport:``: who signs a model's passport.

No key is ever a value of a file: it is named by a path or by an environment variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from aml_train.config.section import PATH, VARIABLE_NAME, CheckedTree, key, make, record, section
from aml_train.config.yaml.shapes import Choice, Flag, Text
from aml_train.config.yaml.source import absolute
from aml_train.config.yaml.structures import Items

Requirement = Literal["signature", "provenance", "tests"]
"""A demand of ``promote.STAGE.require`` or of a policy on a passport."""

_PATHS: Final = ("key", "policy", "trust-config")
_VARIABLE: Final = Text(noun="a variable's name", pattern=VARIABLE_NAME)

REQUIRE: Final = Items(
    item=Choice(words=get_args(Requirement)), noun=f"a list of {', '.join(get_args(Requirement))}", least=1
)


@section
class PassportConfig:
    """``passport:``. At most one of *key_file*, *key_env* and *keyless* is given."""

    key_file: Path | None = key(
        PATH,
        "File of the private key that signs: PEM, of the curves P-256, P-384 or P-521.",
        default=None,
        name="key",
    )
    key_env: str | None = key(_VARIABLE, "Environment variable that holds that key, instead of a file.", default=None)
    passphrase_env: str | None = key(_VARIABLE, "Environment variable that holds the key's passphrase.", default=None)
    keyless: bool = key(
        Flag(),
        "Sign without a key: Sigstore certifies the workflow's identity (`id-token: write`; the extra `sigstore`).",
        default=False,
    )
    trust: Path | None = key(
        PATH,
        "Client trust configuration (JSON) of another instance of Sigstore than the public one, for `keyless`.",
        default=None,
        name="trust-config",
    )
    policy: Path | None = key(
        PATH, "Policy of `promote.STAGE.require` and `aml-train verify`: whose signatures count.", default=None
    )

    @property
    def signs(self) -> bool:
        """Whether models get a passport."""
        return self.keyless or self.key_file is not None or self.key_env is not None


PASSPORT: Final = record(PassportConfig, noun="a mapping with `key`, `key-env` or `keyless`")


def passport_config(checked: CheckedTree) -> PassportConfig:
    """Make ``passport``; without the section, nothing signs."""
    values = checked.section("passport")
    chosen = [name for name in ("key", "key-env", "keyless") if values.get(name)]
    if len(chosen) > 1:
        named = " and ".join(f"`{name}`" for name in chosen)
        checked.fault(f"{named} exclude each other", "passport", chosen[1], remedy="keep one")
    if "passphrase-env" in values and not {"key", "key-env"} & values.keys():
        remedy = "name the key: `key: FILE`"
        checked.fault("`passphrase-env` is of a key", "passport", "passphrase-env", remedy=remedy)
    # A path in a file is text, from the project's folder.
    paths = {name: absolute(checked.directory / values[name]) for name in _PATHS if name in values}
    return make(PassportConfig, {**values, **paths})


def check_requirements(checked: CheckedTree, demanding: Mapping[str, object]) -> None:
    """Check that a stage with ``require`` has a policy to check signatures by.

    Args:
        demanding: the stages that require something.
    """
    if demanding and "policy" not in checked.section("passport"):
        stage = next(iter(demanding))
        checked.fault(
            f"`promote.{stage}.require` needs `passport.policy`",
            "promote",
            stage,
            "require",
            why="any signature would do otherwise",
            remedy="write a policy file with the public keys or identities that may sign: docs/passport.md",
        )
