"""What tests of the Azure SDK import from the SDK's own tools, for live runs only.

The tools are part of the SDK's repository (``eng/tools/azure-sdk-tools``) and in no package index. Live, nothing is recorded or played
back, so that sanitizers and matchers of recordings do nothing. The names and their signatures are the tools'.
"""

from __future__ import annotations

from typing import Any


class AzureRecordedTestCase:
    """The base class of the SDK's tests."""


def is_live() -> bool:
    """Return True: there is a service."""
    return True


def _nothing(**_options: Any) -> None:
    """Do nothing: there is no recording that it could concern."""


add_body_key_sanitizer = _nothing
add_general_regex_sanitizer = _nothing
add_general_string_sanitizer = _nothing
add_remove_header_sanitizer = _nothing
add_uri_regex_sanitizer = _nothing
set_bodiless_matcher = _nothing
set_custom_default_matcher = _nothing


def remove_batch_sanitizers(_names: list[str]) -> None:
    """Do nothing, as the others."""
