"""The simulated services, by the product's own clients and azure-storage-blob."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobLeaseClient, ContainerClient

from aml_emulator.executor import Folder, RunError, RunSpec
from aml_emulator.identity import Tokens
from aml_train.azure.blob.storage import AzureBlobs
from aml_train.azure.http import HttpWay
from aml_train.core.errors import ImageError, ServiceError
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_MANIFEST, Manifest
from aml_train.image.registry.referrers import attach_document, list_referrers, read_referrer
from simulation.world.cluster import PREEMPTED, Cluster
from simulation.world.fast_time import FastTime
from simulation.world.http import Request
from simulation.world.storage import BlobStorage
from simulation.world.wire import connected
from simulation.world.world import World

TOKEN_USER = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def fast() -> Iterator[FastTime]:
    fast = FastTime()
    with fast.installed():
        yield fast


@pytest.fixture
def world(fast: FastTime, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with world.connected():
        yield world


def container_of(world: World, **options: Any) -> ContainerClient:
    url = f"https://{world.identity.blob_host}"
    return ContainerClient(
        url, world.identity.blob_container, credential=world.identity.storage_key, retry_total=0, **options
    )


def blobs_of(world: World) -> AzureBlobs:
    url = f"https://{world.identity.blob_host}"
    return AzureBlobs(url, world.identity.blob_container, credential=world.identity.storage_key, way=HttpWay())


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def test_blobs_are_written_read_listed_and_deleted(world: World) -> None:
    storage, data = blobs_of(world), b"0123456789"
    storage.put("folder/one.txt", data, md5=md5(data))
    storage.upload("folder/deep/two", iter([b"ab", b"cd"]), 4, md5=md5(b"abcd"))
    found = storage.find("folder/one.txt")
    assert found is not None
    assert (found.size, found.md5) == (10, md5(data))
    assert storage.read(found, 3, 4) == b"3456"
    assert [entry.name for entry in storage.walk("folder/")] == ["folder/deep/two", "folder/one.txt"]
    level = [one if isinstance(one, str) else one.name for one in storage.level("folder/")]
    assert sorted(level) == ["folder/deep/", "folder/one.txt"]
    storage.delete("folder/one.txt")
    assert storage.find("folder/one.txt") is None


def test_a_changed_blob_is_not_read_as_the_old_one(world: World) -> None:
    storage = blobs_of(world)
    storage.put("a", b"old", md5=md5(b"old"))
    entry = storage.find("a")
    assert entry is not None
    storage.put("a", b"new", md5=md5(b"new"))
    with pytest.raises(ServiceError, match="ConditionNotMet"):
        storage.read(entry, 0, 3)


def test_damaged_data_are_refused(world: World) -> None:
    with pytest.raises(ServiceError, match="Md5Mismatch"):
        blobs_of(world).put("a", b"data", md5=md5(b"other"))


def test_lists_have_pages(world: World) -> None:
    storage = blobs_of(world)
    for name in ("a", "b", "c", "d", "e"):
        storage.put(name, b"", md5=md5(b""))
    pages = container_of(world).list_blobs(results_per_page=2).by_page()
    assert [[item.name for item in page] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]


def test_append_blobs_grow(world: World) -> None:
    blob = container_of(world).get_blob_client("log")
    blob.create_append_blob()
    blob.append_block(b"one\n")
    blob.append_block(b"two\n")
    assert blob.download_blob().readall() == b"one\ntwo\n"
    assert blob.download_blob(offset=4, length=3).readall() == b"two"


def test_a_lease_excludes_others_until_it_ends(world: World, fast: FastTime) -> None:
    blob = container_of(world).get_blob_client("record")
    blob.upload_blob(b"")
    lease = blob.acquire_lease(lease_duration=45)
    with pytest.raises(HttpResponseError, match="LeaseAlreadyPresent"):
        blob.acquire_lease(lease_duration=45)
    with pytest.raises(HttpResponseError, match="LeaseIdMissing"):
        blob.upload_blob(b"other", overwrite=True)
    blob.upload_blob(b"mine", overwrite=True, lease=lease)
    fast.leap(46)
    second = blob.acquire_lease(lease_duration=45)
    with pytest.raises(HttpResponseError, match="LeaseIdMismatch"):
        blob.upload_blob(b"late", overwrite=True, lease=lease)
    second.release()
    with pytest.raises(HttpResponseError, match="LeaseNotPresent"):
        BlobLeaseClient(blob, lease_id=second.id).renew()
    assert blob.download_blob().readall() == b"mine"


def test_a_signed_address_ends(world: World, fast: FastTime) -> None:
    blobs = world.azureml.context.blobs
    blobs.append(world.identity.blob_container, "log", b"text")
    address = blobs.sas_url(world.identity.blob_container, "log", hours=1)
    assert requests.get(address, timeout=1).content == b"text"
    fast.leap(3601)
    refused = requests.get(address, timeout=1)
    assert (refused.status_code, refused.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")


def test_who_gives_no_credential_sees_nothing(world: World) -> None:
    url = f"https://{world.identity.blob_host}/{world.identity.blob_container}/x"
    assert requests.get(url, timeout=1).status_code == 404


def registry_of(world: World) -> Registry:
    token = Tokens(world.identity).issue_registry_refresh()
    auth = RegistryAuth(username=TOKEN_USER, password=token, identity_token=token)
    return Registry(f"https://{world.registry.host}", auth=auth)


def pushed(registry: Registry, repository: str, tag: str, content: bytes = b"{}") -> Manifest:
    config = registry.upload_blob(repository, content)
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": len(content)},
        "layers": [],
    }
    registry.put_manifest(repository, tag, json.dumps(document).encode(), OCI_MANIFEST)
    found = registry.get_manifest(repository, tag)
    assert found is not None
    return found


def test_images_are_pushed_mounted_tagged_and_deleted(world: World) -> None:
    with registry_of(world) as registry:
        image = pushed(registry, "project", "one")
        registry.put_tag("project", "two", image)
        assert registry.tags("project") == ["one", "two"]
        registry.mount_blob("other", str(image.config_digest), "project")
        assert registry.get_blob("other", str(image.config_digest)) == b"{}"
        assert registry.untag("project", "one")
        assert registry.tags("project") == ["two"]
        head = registry.head_manifest("project", image.digest)
        assert head is not None
        assert head.digest == image.digest
        assert registry.get_manifest("project", "none") is None
        registry.check_push("project")


def test_a_manifest_without_its_parts_is_refused(world: World) -> None:
    document = {"config": {"digest": "sha256:" + "0" * 64, "size": 2, "mediaType": "x"}, "layers": []}
    with registry_of(world) as registry, pytest.raises(ImageError, match="MANIFEST_BLOB_UNKNOWN"):
        registry.put_manifest("project", "tag", json.dumps(document).encode(), OCI_MANIFEST)


def test_referrers_are_listed(world: World) -> None:
    with registry_of(world) as registry:
        image = pushed(registry, "project", "one")
        attach_document(registry, "project", image, artifact_type="application/x.note", content=b"note")
        (referrer,) = list_referrers(registry, "project", image.digest, artifact_type="application/x.note")
        assert read_referrer(registry, "project", referrer) == b"note"


def test_a_locked_tag_stays(world: World) -> None:
    with registry_of(world) as registry:
        image = pushed(registry, "project", "one")
        assert registry.lock_tag("project", "one")
        other = pushed(registry, "project", "other", b'{"other": 1}')
        with pytest.raises(ImageError, match="405"):
            registry.put_manifest("project", "one", other.content, OCI_MANIFEST)
        registry.put_tag("project", "one", image)


def test_nobody_reads_the_registry_without_a_token(world: World) -> None:
    answer = requests.get(f"https://{world.registry.host}/v2/base/tags/list", timeout=1)
    assert answer.status_code == 401
    assert 'Bearer realm="https://amllocal.azurecr.io/oauth2/token"' in answer.headers["WWW-Authenticate"]


def test_other_hosts_are_not_there(world: World) -> None:
    with pytest.raises(requests.ConnectionError, match="no host example"):
        requests.get("https://example.com/", timeout=1)


def test_a_service_that_does_not_run_refuses_connections(world: World) -> None:
    world.azureml.stop()
    with pytest.raises(requests.ConnectionError, match="refuses connections"):
        requests.get("https://management.azure.com/subscriptions", timeout=1)
    world.azureml.start()
    assert requests.get("https://management.azure.com/subscriptions", timeout=1).status_code == 401


def test_tokens_are_noted_and_end(world: World, fast: FastTime) -> None:
    identity = world.identity
    form = {
        "grant_type": "client_credentials",
        "client_id": identity.client_id,
        "client_secret": identity.client_secret,
        "scope": "https://management.azure.com/.default",
    }
    answer = requests.post(
        f"https://login.microsoftonline.com/{identity.tenant_id}/oauth2/v2.0/token", data=form, timeout=1
    )
    token = answer.json()["access_token"]
    assert token in world.secrets.issued
    url = f"https://management.azure.com{identity.workspace_arm_id}?api-version=2024-10-01"
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.get(url, headers=headers, timeout=1).status_code == 200
    fast.leap(3600)
    assert requests.get(url, headers=headers, timeout=1).status_code == 401


class Sink:
    """Writes down what a run reports, with the time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.seen = cluster, list[tuple[str, float]]()

    def status(self, word: str) -> None:
        self.seen.append((word, self.cluster.now()))

    def log(self, path: str) -> None:
        self.seen.append((path, self.cluster.now()))

    artifact = output = usage = lambda self, *_: None

    def finished(self, status: str, error: RunError | None) -> None:
        self.seen.append((f"{status} {error.message if error else ''}".strip(), self.cluster.now()))


class Executor:
    """Hands the sink to the cluster."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self.services = sink, None

    def sink(self, _run_id: str) -> Sink:
        return self._sink


def spec_of(name: str, *lines: str) -> RunSpec:
    return RunSpec(
        run_id=name,
        experiment="e",
        display_name=name,
        command="\n".join(lines),
        image="i",
        artifacts=Folder(container="logs", prefix=name),
    )


def started(fast: FastTime, name: str, *lines: str) -> tuple[Cluster, Sink, float]:
    storage = BlobStorage("account")
    storage.containers["logs"] = {}
    cluster = Cluster(storage, {"PASSWORD": "planted"}, start_seconds=20)
    sink = Sink(cluster)
    executor: Any = Executor(sink)
    cluster.attach(executor)
    began = fast.time()
    cluster.begin(spec_of(name, *lines))
    return cluster, sink, began


def shown(sink: Sink, began: float) -> list[tuple[str, int]]:
    return [(word, round(at - began)) for word, at in sink.seen]


def test_steps_are_reported_with_the_times_at_which_they_were_due(fast: FastTime) -> None:
    cluster, sink, began = started(fast, "job-1", "say hello", "wait 60", "exit 3")
    fast.leap(500)
    cluster.advance()
    failed = "Failed Execution failed. The job's command exited with status code 3."
    assert shown(sink, began) == [
        ("Preparing", 10),
        ("user_logs/std_log.txt", 20),
        ("Running", 20),
        (failed, 80),
    ]


def test_nothing_is_reported_while_the_service_is_down(fast: FastTime) -> None:
    cluster, sink, began = started(fast, "job-1", "wait 60")
    executor = cluster._executor
    cluster.attach(None)
    fast.leap(500)
    cluster.advance()
    assert sink.seen == []
    cluster.attach(executor)
    cluster.advance()
    assert shown(sink, began)[-1] == ("Completed", 80)


def test_a_job_is_cancelled_while_it_waits(fast: FastTime) -> None:
    cluster, sink, began = started(fast, "job-1", "wait 600")
    fast.leap(30)
    cluster.advance()
    assert cluster.stop("job-1")
    fast.leap(30)
    cluster.advance()
    assert shown(sink, began)[-1] == ("Canceled", 31)
    assert not cluster.stop("job-1")


def test_nodes_are_taken_away_so_many_times(fast: FastTime) -> None:
    cluster, sink, _ = started(fast, "job-1", "preempt 1")
    fast.leap(100)
    cluster.advance()
    assert sink.seen[-1][0] == f"Failed {PREEMPTED}"
    cluster.begin(spec_of("job-2", "preempt 1"))
    fast.leap(100)
    cluster.advance()
    assert sink.seen[-1][0] == "Completed"


def test_a_run_is_executed_once(fast: FastTime) -> None:
    cluster, _, _ = started(fast, "job-1", "wait 60")
    cluster.begin(spec_of("job-1", "wait 60"))
    assert len(cluster.executions) == 1


def test_a_planted_secret_is_in_the_log_only_by_its_word(fast: FastTime) -> None:
    cluster, _, _ = started(fast, "job-1", "secret PASSWORD")
    fast.leap(100)
    cluster.advance()
    (blob,) = cluster._storage.containers["logs"].values()
    assert blob.content == b"connecting with planted\n"


def test_bodies_of_every_kind_arrive() -> None:
    seen: list[Request] = []

    def service(request: Request) -> Any:
        from simulation.world.http import Response

        seen.append(request)
        return Response(status=204)

    with connected(service):
        requests.post("https://a.invalid/x?y=1", data=iter([b"a", b"b"]), timeout=1)
        requests.post("https://a.invalid/x", data="text", timeout=1)
        requests.post("https://a.invalid/x", json={"a": 1}, timeout=1)
    assert [one.body for one in seen] == [b"ab", b"text", b'{"a": 1}']
    assert (seen[0].host, seen[0].path, seen[0].query) == ("a.invalid", "/x", {"y": "1"})
