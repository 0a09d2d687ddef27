"""The commands ``aml-train data …``: what a workspace's datastores hold."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from aml_train.cli.options import target_options
from aml_train.cli.running import terminate_like_interrupt

if TYPE_CHECKING:
    from aml_train.azure import DataWorkspace, Entry, Place, Remote
    from aml_train.pipeline import DataTargets

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NO_REMOTE: Final = (
    "Name it as azureml://datastores/NAME/paths/PATH, azureml:NAME:VERSION or azureml://jobs/JOB/outputs/NAME."
)


@click.group()
def data() -> None:
    """Data of a workspace: list, upload, download, copy and remove.

    \b
    Addresses:
      azureml://datastores/NAME/paths/PATH      a blob or a folder; a slash at the end tells a folder
      azureml:NAME:VERSION, azureml:NAME@latest  a data asset, to read
      azureml://jobs/JOB/outputs/NAME           an output of a job, to read
      TARGET::ADDRESS                           the same of another target than the default one
    Wildcards (* ? [abc] within a folder, ** for any folders) go in quotes.

    What was sent or received before is not sent again: after an interruption, run the same command once more.
    """


def _asset_options(command: _Command) -> _Command:
    options = (
        click.option("--name", help="Register it as a data asset of this name."),
        click.option("--version", help="The asset's version.  [default: the next number]"),
        click.option(
            "--type",
            "type_",
            type=click.Choice(["uri_folder", "uri_file", "mltable"]),
            help="The asset's type.  [default: uri_file for a single file, else uri_folder]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def open_targets(directory: Path, config: Path | None, target: str | None) -> DataTargets:
    """Return the targets that the options of the command line mean."""
    from aml_train.cli.console import ConsoleListener
    from aml_train.config import load_targets
    from aml_train.pipeline import DataTargets, Host

    targets = load_targets(config, directory=directory)
    return DataTargets(Host(environ=dict(os.environ)), targets, target, ConsoleListener(sys.stderr))


def _remote(text: str) -> Remote:
    from aml_train.azure import LocalPath, parse_address
    from aml_train.core.errors import InvalidError

    address = parse_address(text)
    if isinstance(address, LocalPath):
        raise InvalidError(f"{text!r} is a path on this machine, not an address of data.", hint=_NO_REMOTE)
    return address


def _place(targets: DataTargets, text: str) -> Place:
    """Return what is read from."""
    from aml_train.azure import Place

    address = _remote(text)
    workspace = targets.workspace(address.target)
    where = workspace.locate(address)
    return Place(storage=workspace.storage(where.datastore), path=where.path, address=text)


def _written(targets: DataTargets, text: str) -> tuple[Place, DataWorkspace, str]:
    """Return what is written to, its workspace, and the datastore's name."""
    from aml_train.azure import DatastorePath, Place
    from aml_train.core.errors import InvalidError

    address = _remote(text)
    if not isinstance(address, DatastorePath):
        raise InvalidError(
            f"{text!r} cannot be written to: only paths in a datastore can.",
            hint="Write to azureml://datastores/NAME/paths/PATH, and register an asset with --name.",
        )
    workspace = targets.workspace(address.target)
    where = workspace.locate(address)
    storage = workspace.storage(where.datastore)
    return Place(storage=storage, path=where.path, address=text), workspace, where.datastore


@data.command("ls")
@click.argument("address", required=False)
@target_options
@click.option("-r", "--recursive", is_flag=True, help="Everything below, not only the folder itself.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each: name, size, md5, modified.")
def ls(
    address: str | None, directory: Path, config: Path | None, target: str | None, *, recursive: bool, as_json: bool
) -> None:
    """List a folder, or what a pattern names; without ADDRESS, the datastores.

    \b
    aml-train data ls
    aml-train data ls azureml://datastores/workspaceblobstore/paths/images/
    aml-train data ls -r azureml:digits@latest
    """
    from aml_train.azure import listing

    targets = open_targets(directory, config, target)
    if address is None:
        for one in targets.workspace(None).datastores():
            line = {"name": one.name, "type": one.kind, "place": one.place, "credentials": one.credentials}
            if as_json:
                click.echo(json.dumps({**line, "default": one.default}))
            else:
                note = "  (default)" if one.default else ""
                click.echo(f"{one.name:<28} {one.kind:<18} {one.credentials:<12} {one.place}{note}")
        return
    for name, entry in listing(_place(targets, address), recursive=recursive):
        click.echo(_json_line(name, entry) if as_json else _line(name, entry))


def _line(name: str, entry: Entry | None) -> str:
    from aml_train.cli.console import printable
    from aml_train.core.text import size

    if entry is None:
        return f"{'':>10}  {'':<20}  {printable(name)}"
    return f"{size(entry.size):>10}  {entry.modified:%Y-%m-%d %H:%M:%SZ}  {printable(name)}"


def _json_line(name: str, entry: Entry | None) -> str:
    if entry is None:
        return json.dumps({"name": name})
    md5 = entry.md5.hex() if entry.md5 else None
    return json.dumps({"name": name, "size": entry.size, "md5": md5, "modified": entry.modified.isoformat()})


@data.command("upload")
@click.argument("source", metavar="LOCAL")
@click.argument("address", required=False)
@_asset_options
@target_options
def upload(
    source: str,
    address: str | None,
    *,
    name: str | None,
    version: str | None,
    type_: str | None,
    directory: Path,
    config: Path | None,
    target: str | None,
) -> None:
    """Send a file or a folder's contents; with --name, register it as a data asset.

    Without ADDRESS it goes to data/NAME/VERSION of the default datastore.

    \b
    aml-train data upload images azureml://datastores/workspaceblobstore/paths/images
    aml-train data upload digits.csv --name digits
    """
    from aml_train.azure import asset_type
    from aml_train.azure import upload as send
    from aml_train.core.errors import InvalidError

    targets = open_targets(directory, config, target)
    _check_asset_options(name, version, type_)
    if address is None:
        if name is None:
            raise InvalidError("Where to? Neither an address nor --name is given.", hint=_NO_REMOTE)
        workspace = targets.workspace(None)
        version = version or workspace.next_version(name)
        folder = "" if os.path.isdir(source) else "/"  # noqa: PTH112
        address = f"azureml://datastores/{workspace.default_datastore()}/paths/data/{name}/{version}{folder}"
    has_mltable = os.path.isfile(Path(source) / "MLTable")  # noqa: PTH113 - too long a name is no file
    asset_type(type_, single=os.path.isfile(source), has_mltable=has_mltable)  # noqa: PTH113
    place, workspace, datastore = _written(targets, address)
    _check_new(workspace, name, version)
    single = moved("sent", lambda tally: send(source, place, tally))
    file = Path(source).name if single and place.path.endswith("/") else None
    _register(workspace, datastore, place, name, version, type_, single=single, file=file, has_mltable=has_mltable)


@data.command("download")
@click.argument("address")
@click.argument("local", required=False, default=".")
@target_options
def download(address: str, local: str, directory: Path, config: Path | None, target: str | None) -> None:
    """Fetch a blob, a folder's contents, or what a pattern names, to LOCAL (the current folder).

    A file has its name only when it is complete and its checksum was found right.

    \b
    aml-train data download azureml:digits@latest data/
    aml-train data download "azureml://datastores/workspaceblobstore/paths/images/*.png" data
    """
    from aml_train.azure import download as fetch

    place = _place(open_targets(directory, config, target), address)
    moved(
        "received",
        lambda tally: fetch(place, Path(local), tally, folder_wanted=local.endswith("/")),
    )


@data.command("cp")
@click.argument("source")
@click.argument("address")
@_asset_options
@target_options
def cp(
    source: str,
    address: str,
    *,
    name: str | None,
    version: str | None,
    type_: str | None,
    directory: Path,
    config: Path | None,
    target: str | None,
) -> None:
    """Copy within a target or from one to another, by way of this machine; with --name, register the copy.

    \b
    aml-train data cp azureml:digits:3 azure::azureml://datastores/workspaceblobstore/paths/digits/3 --name digits
    aml-train data cp azure::azureml://jobs/JOB/outputs/model local::azureml://datastores/workspaceblobstore/paths/model
    """
    from aml_train.azure import asset_type, copy, find

    targets = open_targets(directory, config, target)
    _check_asset_options(name, version, type_)
    read = _place(targets, source)
    if name is not None:
        asset_type(type_, single=find(read).single, has_mltable=True)
    place, workspace, datastore = _written(targets, address)
    _check_new(workspace, name, version)
    single = moved("copied", lambda tally: copy(read, place, tally))
    file = read.path.rstrip("/").rpartition("/")[2] if single and place.path.endswith("/") else None
    has_mltable = name is not None and place.storage.find(f"{place.folder}MLTable") is not None
    _register(workspace, datastore, place, name, version, type_, single=single, file=file, has_mltable=has_mltable)


@data.command("rm")
@click.argument("address")
@target_options
@click.option("-r", "--recursive", is_flag=True, help="Also folders with everything in them.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def rm(address: str, directory: Path, config: Path | None, target: str | None, *, recursive: bool, yes: bool) -> None:
    """Delete blobs of a datastore, after asking.

    \b
    aml-train data rm azureml://datastores/workspaceblobstore/paths/old.csv
    aml-train data rm --recursive azureml://datastores/workspaceblobstore/paths/images/
    """
    from aml_train.azure import check_removal, count, remove
    from aml_train.core.text import size

    place, _, _ = _written(open_targets(directory, config, target), address)
    check_removal(place, recursive=recursive)
    if not yes:
        files, volume = count(place, recursive=recursive)
        noun = "file" if files == 1 else "files"
        click.confirm(f"Delete {files:,} {noun} ({size(volume)}) of {place.storage.place}?", abort=True, err=True)
    moved("deleted", lambda tally: remove(place, tally, recursive=recursive))


_Result = TypeVar("_Result")


def moved(verb: str, work: Callable[[Any], _Result]) -> _Result:
    """Do the work with its progress on stderr; say on stdout what was done."""
    from aml_train.azure import Tally
    from aml_train.cli.data_progress import amount, shown, summary
    from aml_train.core.errors import CancelledError

    tally = Tally()
    began = time.monotonic()
    try:
        with terminate_like_interrupt(), shown(verb, tally, sys.stderr):
            result = work(tally)
    except KeyboardInterrupt:
        raise CancelledError(
            f"Interrupted: {verb} {amount(tally)}.", hint="Run the same command again: it goes on from here."
        ) from None
    click.echo(summary(verb, tally, time.monotonic() - began))
    return result


def _check_asset_options(name: str | None, version: str | None, type_: str | None) -> None:
    if name is None and (version or type_):
        raise click.UsageError("--version and --type are of a data asset: which --name?")


def _check_new(workspace: DataWorkspace, name: str | None, version: str | None) -> None:
    """Refuse a version that is there already, before anything is sent: what it holds must not change."""
    from aml_train.core.errors import InvalidError

    if name is not None and version is not None and workspace.has_asset(name, version):
        raise InvalidError(
            f"The data asset {name}:{version} is registered already, and a version never changes what it holds.",
            hint="Give another --version, or none for the next number.",
        )


def _register(
    workspace: DataWorkspace,
    datastore: str,
    place: Place,
    name: str | None,
    version: str | None,
    type_: str | None,
    *,
    single: bool,
    file: str | None,
    has_mltable: bool,
) -> None:
    from aml_train.azure import DatastorePath, asset_type

    path = f"{place.folder}{file or ''}" if file or not single else place.path.strip("/")
    click.echo(f"azureml://datastores/{datastore}/paths/{path}")
    if name is None:
        return
    kind = asset_type(type_, single=single, has_mltable=has_mltable)
    where = DatastorePath(datastore=datastore, path=path)
    made = workspace.register(name, version or workspace.next_version(name), type_=kind, where=where)
    click.echo(f"azureml:{made.name}:{made.version}")
