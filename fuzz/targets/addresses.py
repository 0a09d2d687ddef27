"""Addresses: data, blobs with SAS, remotes, engines, services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aml_emulator.domain import DomainError
from aml_emulator.domain.data_map import canonical
from aml_emulator.domain.locations import in_datastore, parse_location
from aml_emulator.executor.layout import UnsafePathError, safe_relative, url_file_name
from aml_emulator.network.heads import BadHeadError
from aml_emulator.registry.requests import plain_target, read_request, read_scope
from aml_train.azure.blob.address import Asset, DatastorePath, JobOutput, LocalPath, parse_address
from aml_train.core.answers import is_within, split
from aml_train.core.docker_ssh import ssh_command
from aml_train.core.errors import AmlTrainError
from aml_train.image.registry.auth import is_loopback, parse_challenge
from aml_train.pipeline.project_name import repository_of
from fuzz.target import Target, require

_WORKSPACE = "azureml://subscriptions/s/resourcegroups/g/workspaces/w"


def seeds() -> Sequence[str]:
    """Return addresses of every form."""
    return [
        *(
            "azureml:data:1",
            "azureml:data@latest",
            "azureml://datastores/w/paths/a/b*",
            f"{_WORKSPACE}/datastores/w/paths/a/",
        ),
        *(
            "azureml://jobs/j/outputs/default/paths/m",
            f"{_WORKSPACE}/data/d/versions/2",
            "local:azureml://datastores/w/paths/x",
            "./x",
        ),
        *(
            "https://acc.blob.core.windows.net/c/a%20b?sv=1&sig=abc%2F%3D&se=2026",
            "wasbs://c@acc.blob.core.windows.net/p",
            "abfss://c@a.dfs.core.windows.net/p",
        ),
        *(
            "git@github.com:octo/digits.git",
            "https://u:p@dev.azure.com/o/p/_git/r",
            "ssh://git@ssh.dev.azure.com/v3/o/p/r",
        ),
        *(
            "ssh://user@host:22",
            "aml://asset/x",
            "/v2/r/manifests/latest?n=1",
            "repository:a/b:pull,push",
        ),
        *(
            'Bearer realm="https://auth.io/token",service="s",scope="repository:a:pull"',
            "127.0.0.1",
            "[::1]",
            "azureml://locations/e/workspaces/w/data/d/versions/1",
        ),
    ]


def _refused(read: Callable[[str], Any], text: str, *errors: type[Exception]) -> Any:
    try:
        return read(text)
    except errors as error:
        require(str(error), "a refusal says nothing")
        return None


def check(text: str) -> None:
    """Read a text as each kind of address."""
    found = _refused(parse_address, text, AmlTrainError)
    match found:
        case DatastorePath() | JobOutput():
            require(not found.path.startswith("/"), "a path in a container is absolute")
        case Asset():
            require(found.name, "an asset without a name")
        case LocalPath():
            require(found.path == text and "://" not in text, "a path is another one")
    parts = split(text)
    require(parts is None or (parts.scheme in ("http", "https") and parts.hostname), "no address is taken for one")
    require(not is_within(text, "https://management.azure.com") or parts is not None, "a token goes to no address")
    host = (
        parts.hostname
        if parts is not None and is_within(text, "https://management.azure.com")
        else "management.azure.com"
    )
    require(
        host is not None and (host == "management.azure.com" or host.endswith(".management.azure.com")),
        f"a token goes to {host}",
    )
    parse_challenge(text)
    is_loopback(text)
    repository = repository_of(text)
    require("@" not in repository.partition("/")[0], "a project's name has credentials")
    words = _refused(ssh_command, text, AmlTrainError)
    if words is not None:
        options = [
            word
            for word in words[: words.index("--")]
            if word.startswith("-") and word not in ("-T", "-o", "-l", "-p")
        ]
        require(not options or "-l" in words, f"an address gives ssh an option: {options}")
    _refused(parse_location, text, DomainError)
    in_datastore(text)
    _refused(canonical, text, ValueError)
    safe = _refused(safe_relative, text, UnsafePathError)
    if safe is not None:
        require(not safe.startswith("/") and ".." not in safe.split("/"), f"{safe!r} leads elsewhere")
    _refused(url_file_name, text, ValueError)
    line = text.replace(" ", "%20").encode("ascii", "ignore").decode()
    _refused(lambda one: read_request("GET", one), line, BadHeadError)
    _refused(plain_target, line, BadHeadError)
    read_scope(text)


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.azure.blob.address",
        "aml_train.core.answers",
        "aml_train.core.docker_ssh",
        "aml_train.image.registry.auth",
        "aml_train.pipeline.project_name",
        "aml_emulator.domain.locations",
        "aml_emulator.domain.data_map",
        "aml_emulator.executor.layout",
        "aml_emulator.registry.requests",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            "azureml:",
            "azureml://",
            "datastores/",
            "/paths/",
            "jobs/",
            "/outputs/",
            "/versions/",
            "@latest",
            "https://",
            "ssh://",
            "?sig=",
        ),
        *(
            "[",
            "]",
            "@",
            ":99999",
            ":",
            "%2F",
            "%5B",
            "%00",
            "..",
            "//",
            ".azure.com",
            "management.azure.com",
            "-oProxyCommand=x",
            'realm="',
            '"',
        ),
    ),
)
