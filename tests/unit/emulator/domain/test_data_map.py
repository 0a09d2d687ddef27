"""Addresses of data elsewhere, and the folders that replace them."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from aml_emulator.api.admin import Admin
from aml_emulator.domain.data_map import DataMap, canonical
from aml_emulator.executor.spec import Folder
from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import IDENTITY, Service

FOLDER = Folder(container="c", prefix="mapped/1")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://a.blob.core.windows.net/c/x/", "https://a.blob.core.windows.net/c/x"),
        ("wasbs://c@a.blob.core.windows.net/x", "https://a.blob.core.windows.net/c/x"),
        ("abfss://c@A.dfs.core.windows.net/x", "https://a.blob.core.windows.net/c/x"),
        ("https://a.dfs.core.windows.net/c//x?sig=1#f", "https://a.blob.core.windows.net/c/x"),
        ("http://example.org:81/a%20b", "https://example.org:81/a b"),
        ("https://example.org", "https://example.org"),
    ],
)
def test_an_address_has_one_form(address: str, expected: str) -> None:
    assert canonical(address) == expected


@pytest.mark.parametrize("address", ["", "azureml://datastores/x/paths/y", "./folder", "https:///x", "ftp://a/b"])
def test_what_is_no_address_of_data(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address of data"):
        canonical(address)
    assert DataMap().find(address) is None


def test_an_address_stands_for_all_below_it_and_the_longest_counts(tmp_path: Path) -> None:
    found = DataMap(tmp_path / "map.json")
    assert found.put("https://a.blob.core.windows.net/c", FOLDER) is None
    inner = Folder(container="c", prefix="mapped/2/x.csv")
    found.put("wasbs://c@a.blob.core.windows.net/d/x.csv", inner)
    again = DataMap(tmp_path / "map.json")
    assert again.listed() == found.listed()
    assert again.find("wasbs://c@a.blob.core.windows.net") == FOLDER
    assert again.find("https://a.blob.core.windows.net/c/d/y.csv?sig=1") == dataclasses.replace(
        FOLDER, prefix="mapped/1/d/y.csv"
    )
    assert again.find("abfss://c@a.dfs.core.windows.net/d/x.csv") == inner
    assert again.find("https://a.blob.core.windows.net/cd") is None
    assert again.remove("https://a.blob.core.windows.net/c/") == FOLDER
    assert again.remove("https://a.blob.core.windows.net/c/") is None
    again.clear()
    assert DataMap(tmp_path / "map.json").listed() == {}


def job_input(kind: str, uri: str) -> dict[str, Any]:
    return {"inputs": {"d": {"jobInputType": kind, "uri": uri}}}


@pytest.mark.parametrize(
    ("kind", "uri", "prefix"),
    [
        ("uri_file", "https://public.blob.core.windows.net/c/x.csv", "mapped/1/x.csv"),
        ("uri_folder", "wasbs://c@public.blob.core.windows.net/deep", "mapped/1/deep"),
        ("mltable", "abfss://c@public.dfs.core.windows.net/table/", "mapped/1/table"),
    ],
)
def test_inputs_are_read_from_the_folder(service: Service, kind: str, uri: str, prefix: str) -> None:
    here = dataclasses.replace(FOLDER, container=IDENTITY.blob_container)
    service.services.data_map.put("https://public.blob.core.windows.net/c", here)
    assert service.submit("run1", **job_input(kind, uri)).status == 201
    (item,) = service.runner.submitted[0].inputs
    assert item.location == dataclasses.replace(here, prefix=prefix)
    assert item.url is None


def test_outputs_are_written_to_the_folder(service: Service) -> None:
    here = dataclasses.replace(FOLDER, container=IDENTITY.blob_container)
    service.services.data_map.put("https://public.blob.core.windows.net/c", here)
    output = {"jobOutputType": "uri_folder", "uri": "wasbs://c@public.blob.core.windows.net/made"}
    assert service.submit("run1", outputs={"o": output}).status == 201
    assert service.runner.submitted[0].outputs[0].location.prefix == "mapped/1/made"


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("https://public.blob.core.windows.net/c/x.csv", "https://public.blob.core.windows.net/c/x.csv"),
        ("wasbs://c@public.blob.core.windows.net/x.csv", "https://public.blob.core.windows.net/c/x.csv"),
        ("https://example.org/x.csv", "https://example.org/x.csv"),
    ],
)
def test_without_one_a_public_file_is_fetched(service: Service, uri: str, url: str) -> None:
    assert service.submit("run1", **job_input("uri_file", uri)).status == 201
    (item,) = service.runner.submitted[0].inputs
    assert (item.url, item.location) == (url, None)


def test_the_admin_interface_keeps_the_entries_and_deletes_what_was_uploaded() -> None:
    service = Service(blobs=StoredBlobs())
    admin = Admin(
        context=service.services, jobs=service.jobs, version="1", ca_pem="", registry_engine_name="", max_jobs=1,
        children_alive=lambda: True,
    )  # fmt: skip

    def ask(method: str, query: str = "") -> tuple[int, Any]:
        status, body = anyio.run(admin.answer, method, f"/_emulator/data{query}")
        return status, json.loads(body)

    blobs, container, address = service.services.blobs, IDENTITY.blob_container, "https://public.org/c"
    for name in ("mapped/1/x.csv", "mapped/2/x.csv", "mine/x.csv"):
        blobs.write(container, name, io.BytesIO(b"a"), 1)

    def left() -> list[str]:
        return sorted(entry.name for entry in blobs.walk(container, ""))

    for folder in ("mapped/1", "mapped/2", "mine"):
        uri = f"azureml://datastores/workspaceblobstore/paths/{folder}"
        status, answer = ask("POST", f"?address={address}&uri={uri}")
        assert (status, answer["data"][address].endswith(f"/workspaceblobstore/paths/{folder}")) == (200, True)
    assert left() == ["mine/x.csv"]
    assert ask("DELETE", f"?address={address}") == (200, {"data": {}})
    assert left() == ["mine/x.csv"]
    assert ask("DELETE", f"?address={address}")[0] == 404
    assert ask("DELETE", "?address=folder")[0] == 400
    assert ask("POST", f"?address={address}&uri=nothing")[0] == 400
    assert ask("POST", "?address=x&uri=azureml://datastores/workspaceblobstore/paths/a")[0] == 400
    assert ask("GET") == (200, {"data": {}})
    service.close()
