"""What a user's scripts do with the registry, by the real azure-containerregistry. Run as a program, as client_steps.py."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

EMPTY = "application/vnd.oci.empty.v1+json"


def client(**options: Any) -> Any:
    """Return a client of the registry, signed in by the environment's credential."""
    from azure.containerregistry import ContainerRegistryClient
    from azure.identity import EnvironmentCredential

    return ContainerRegistryClient("https://amllocal.azurecr.io", EnvironmentCredential(), **options)


def put(acr: Any, repository: str, content: bytes, *tags: str) -> str:
    """Store a manifest of one layer under each tag; return its digest."""
    config, config_size = acr.upload_blob(repository, io.BytesIO(b"{}"))
    layer, layer_size = acr.upload_blob(repository, io.BytesIO(content))
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": EMPTY, "digest": config, "size": config_size},
        "layers": [{"mediaType": "application/octet-stream", "digest": layer, "size": layer_size}],
    }
    digests = {str(acr.set_manifest(repository, manifest, tag=tag)) for tag in tags}
    return digests.pop()


def change(given: dict[str, str]) -> dict[str, Any]:
    """Untag, lock, unlock, delete."""
    del given
    from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

    refused: list[list[Any]] = []

    def attempt(what: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except HttpResponseError as error:
            refused.append([what, error.status_code])

    with client() as acr:
        digest = put(acr, "sdk/changed", b"kept", "a", "b", "locked")
        acr.delete_tag("sdk/changed", "a")
        acr.delete_tag("sdk/changed", "never")
        after = [tag.name for tag in acr.list_tag_properties("sdk/changed")]
        content = acr.get_manifest("sdk/changed", digest).digest
        properties = acr.update_tag_properties("sdk/changed", "locked", can_write=False, can_delete=False)
        attempt("put", lambda: put(acr, "sdk/changed", b"another", "locked"))
        attempt("untag", lambda: acr.delete_tag("sdk/changed", "locked"))
        attempt("manifest", lambda: acr.delete_manifest("sdk/changed", digest))
        attempt("repository", lambda: acr.delete_repository("sdk/changed"))
        acr.update_repository_properties("sdk/changed", can_read=False)
        attempt("read", lambda: acr.get_manifest("sdk/changed", "b"))
        acr.update_repository_properties("sdk/changed", can_read=True)
        acr.update_tag_properties("sdk/changed", "locked", can_write=True, can_delete=True)
        other = put(acr, "sdk/changed", b"another", "other")
        acr.delete_manifest("sdk/changed", other)
        left = [tag.name for tag in acr.list_tag_properties("sdk/changed")]
        acr.update_manifest_properties("sdk/changed", digest, can_list=False)
        listed = [item.digest for item in acr.list_manifest_properties("sdk/changed")]
        acr.delete_repository("sdk/changed")
        try:
            acr.get_repository_properties("sdk/changed")
            gone = False
        except ResourceNotFoundError:
            gone = True
        again = put(acr, "sdk/changed", b"kept", "a")
        return {
            "digest": digest,
            "after": after,
            "content": content,
            "locked": [properties.can_write, properties.can_delete, properties.can_read],
            "refused": refused,
            "left": left,
            "listed": listed,
            "gone": gone,
            "again": [again, b"".join(acr.download_blob("sdk/changed", _layer(acr, again))).decode()],
        }


def _layer(acr: Any, digest: str) -> str:
    return str(acr.get_manifest("sdk/changed", digest).manifest["layers"][0]["digest"])


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {step.__name__: step for step in (change,)}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
