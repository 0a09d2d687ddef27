"""The page of the local AzureML, for people: read-only and self-contained."""

from __future__ import annotations

from aml_emulator.page.sites import Sites as Sites
