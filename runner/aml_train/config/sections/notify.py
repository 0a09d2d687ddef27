"""``notify:``: webhooks that receive how a run ended.

The address of a webhook is a secret: it is never a value of the file, which names the environment variable that holds it.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from aml_train.config.section import CheckedTree, key, make, record, section
from aml_train.config.sections.values import VARIABLE_NAME
from aml_train.config.yaml.shapes import Choice, Text
from aml_train.config.yaml.structures import Either, Items

Occasion = Literal["failure", "success", "always"]
Format = Literal["json", "slack", "teams"]

_NOUN: Final = "a mapping with `url-env`, or a list of such mappings"


@section
class NotifyConfig:
    """One webhook of ``notify:``."""

    url_env: str = key(
        Text(noun="a variable's name", pattern=VARIABLE_NAME),
        "Environment variable that holds the webhook's address, which is a secret: https only, or http on this machine.",
    )
    format: Format = key(
        Choice(words=get_args(Format)),
        "Body of the request: `json` (the default), aml-train's own; `slack` or `teams`, a message for people.",
        default="json",
    )
    when: tuple[Occasion, ...] = key(
        Items(item=Choice(words=get_args(Occasion)), noun="a list of endings", least=1),
        "Endings that are reported: `failure`, `success`, `always` (the default).",
        default=("always",),
    )

    def wants(self, exit_code: int) -> bool:
        """Return whether a run that ended with *exit_code* is reported."""
        return "always" in self.when or ("success" if exit_code == 0 else "failure") in self.when


_ONE: Final = record(
    NotifyConfig,
    noun="a mapping with `url-env`",
    hints={
        "url": "the address is a secret: name the environment variable that holds it, `url-env: NAME`",
        "on": "write `when`: YAML reads `on` as the boolean true",
    },
)
NOTIFY: Final = Either(noun=_NOUN, keys=_ONE, items=Items(item=_ONE, noun=_NOUN, least=1))


def notify_config(checked: CheckedTree) -> tuple[NotifyConfig, ...]:
    """Make ``notify``; without the section, no one is notified."""
    found = checked.values.get("notify") or ()
    entries = [found] if isinstance(found, dict) else found
    return tuple(make(NotifyConfig, one) for one in entries if "url-env" in one)
