"""The page of the local AzureML: runs, models, assets, computes, for people, read-only and without anything from outside."""

from __future__ import annotations

from aml_emulator.page.site import Site as Site
