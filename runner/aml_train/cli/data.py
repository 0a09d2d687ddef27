"""The commands ``aml-train data …``: list, transfer, copy and delete a workspace's data."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import click
from rich.console import Console

from aml_train.azure.blob.address import DatastorePath, LocalPath, parse_address
from aml_train.azure.blob.datastores import DataWorkspace, asset_type
from aml_train.azure.blob.operations import Place
from aml_train.azure.blob.transfer import Tally
from aml_train.cli.live import LiveStages
from aml_train.cli.options import open_workspace
from aml_train.cli.output import json_option, print_result_line
from aml_train.cli.project import ProjectOptions, target_options
from aml_train.core.errors import CancelledError, InvalidError
from aml_train.core.text import duration, printable, size

if TYPE_CHECKING:
    from aml_train.azure.blob.address import Remote
    from aml_train.azure.blob.storage import Entry

_Result = TypeVar("_Result")
_LINE_SECONDS: Final = 10.0
_BAR_SECONDS: Final = 0.2
_NO_REMOTE: Final = (
    "Name it as azureml://datastores/NAME/paths/PATH, azureml:NAME:VERSION or azureml://jobs/JOB/outputs/NAME."
)


@click.group()
def data() -> None:
    """List, upload, download, copy and delete data of a workspace.

    \b
    Addresses:
      azureml://datastores/NAME/paths/PATH      a blob or a folder; a slash at the end means a folder
      azureml:NAME:VERSION, azureml:NAME@latest  a data asset, to read
      azureml://jobs/JOB/outputs/NAME           an output of a job, to read
    Wildcards (* ? [abc] within a folder, ** for any folders) go in quotes.

    Files that were transferred before are skipped: after an interruption, run the same command again.
    """


def open_data(project: ProjectOptions) -> DataWorkspace:
    """Return the data of the target that the options of the command line select."""
    return DataWorkspace(open_workspace(project))


def _remote(text: str) -> Remote:
    address = parse_address(text)
    if isinstance(address, LocalPath):
        raise InvalidError(f"{text!r} is a path on this machine, not an address of data.", hint=_NO_REMOTE)
    return address


def _place(project: ProjectOptions, text: str) -> Place:
    """Return the place to read from."""
    address = _remote(text)
    workspace = open_data(project)
    where = workspace.locate(address)
    return Place(storage=workspace.storage(where.datastore), path=where.path, address=text)


def _writable(text: str) -> DatastorePath:
    address = _remote(text)
    if not isinstance(address, DatastorePath):
        raise InvalidError(
            f"{text!r} cannot be written to: only paths in a datastore can.",
            hint="Write to azureml://datastores/NAME/paths/PATH, and register an asset with --name.",
        )
    return address


@data.command("ls")
@click.argument("address", required=False)
@target_options
@click.option("-r", "--recursive", is_flag=True, help="List everything below, not only the folder itself.")
@json_option(lines=True)
def ls(address: str | None, project: ProjectOptions, *, recursive: bool, as_json: bool) -> None:
    """List a folder or the matches of a pattern; without ADDRESS, the datastores.

    \b
    aml-train data ls
    aml-train data ls azureml://datastores/workspaceblobstore/paths/images/
    aml-train data ls -r azureml:digits@latest
    """
    if address is None:
        for one in open_data(project).datastores():
            line = {"name": one.name, "type": one.kind, "place": one.place, "credentials": one.credentials}
            if as_json:
                print_result_line({**line, "default": one.default})
            else:
                note = "  (default)" if one.default else ""
                click.echo(f"{one.name:<28} {one.kind:<18} {one.credentials:<12} {one.place}{note}")
        return
    for name, entry in _place(project, address).listing(recursive=recursive):
        if as_json:
            print_result_line(_facts(name, entry))
        else:
            click.echo(_line(name, entry))


def _line(name: str, entry: Entry | None) -> str:
    if entry is None:
        return f"{'':>10}  {'':<20}  {printable(name)}"
    return f"{size(entry.size):>10}  {entry.modified:%Y-%m-%d %H:%M:%SZ}  {printable(name)}"


def _facts(name: str, entry: Entry | None) -> dict[str, object]:
    if entry is None:
        return {"name": name}
    md5 = entry.md5.hex() if entry.md5 else None
    return {"name": name, "size": entry.size, "md5": md5, "modified": entry.modified.isoformat()}


@data.command("upload")
@click.argument("source", metavar="LOCAL")
@click.argument("address", required=False)
@click.option("--name", help="Register it as a data asset of this name.")
@click.option("--version", help="The asset's version.  [default: the next number]")
@click.option(
    "--type",
    "type_",
    type=click.Choice(["uri_folder", "uri_file", "mltable"]),
    help="The asset's type.  [default: uri_file for a single file, else uri_folder]",
)
@target_options
def upload(
    source: str,
    address: str | None,
    project: ProjectOptions,
    *,
    name: str | None,
    version: str | None,
    type_: str | None,
) -> None:
    """Upload a file or a folder's contents; with --name, register a data asset.

    Without ADDRESS it goes to data/NAME/VERSION of the default datastore.

    \b
    aml-train data upload images azureml://datastores/workspaceblobstore/paths/images
    aml-train data upload digits.csv --name digits
    """
    if name is None and (version or type_):
        raise click.UsageError("--version and --type describe a data asset: which --name?")
    if address is None and name is None:
        raise InvalidError("Where to? Neither an address nor --name is given.", hint=_NO_REMOTE)
    wanted = None if address is None else _writable(address)
    has_mltable = os.path.isfile(Path(source) / "MLTable")  # noqa: PTH113 - too long a name is no file
    asset_type(type_, single=os.path.isfile(source), has_mltable=has_mltable)  # noqa: PTH113
    workspace = open_data(project)
    # Versions are immutable: one that exists is refused before anything is sent.
    if name is not None and version is not None and workspace.has_asset(name, version):
        raise InvalidError(
            f"The data asset {name}:{version} is registered already, and versions are immutable.",
            hint="Give another --version, or none for the next number.",
        )
    if name is not None:
        version = version or workspace.next_version(name)
    if wanted is None:
        folder = "" if os.path.isdir(source) else "/"  # noqa: PTH112
        wanted = DatastorePath(datastore=workspace.default_datastore(), path=f"data/{name}/{version}{folder}")
    where = workspace.locate(wanted)
    place = Place(storage=workspace.storage(where.datastore), path=where.path, address=address or f"{name}:{version}")
    single = moved("sent", lambda tally: place.upload(source, tally))
    file = Path(source).name if single and place.path.endswith("/") else None
    path = f"{place.folder}{file or ''}" if file or not single else place.path.strip("/")
    click.echo(f"azureml://datastores/{where.datastore}/paths/{path}")
    if name is not None and version is not None:
        kind = asset_type(type_, single=single, has_mltable=has_mltable)
        made = workspace.register(
            name, version, type_=kind, where=DatastorePath(datastore=where.datastore, path=path)
        )
        click.echo(f"azureml:{made.name}:{made.version}")


@data.command("download")
@click.argument("address")
@click.argument("local", required=False, default=".")
@target_options
def download(address: str, local: str, project: ProjectOptions) -> None:
    """Download a blob, a folder's contents, or the matches of a pattern.

    They go to LOCAL, by default the current folder. A file gets its name when it is complete and its checksum is verified.

    \b
    aml-train data download azureml:digits@latest data/
    aml-train data download "azureml://datastores/workspaceblobstore/paths/images/*.png" data
    """
    place = _place(project, address)
    moved("received", lambda tally: place.download(Path(local), tally, folder_wanted=local.endswith("/")))


@data.command("cp")
@click.argument("source")
@click.argument("address")
@target_options
def cp(source: str, address: str, project: ProjectOptions) -> None:
    """Copy data within a workspace; the data pass through this machine.

    \b
    aml-train data cp azureml:digits:3 azureml://datastores/workspaceblobstore/paths/digits/3/
    aml-train data cp azureml://jobs/JOB/outputs/model azureml://datastores/workspaceblobstore/paths/model/
    """
    _writable(address)
    read, written = _place(project, source), _place(project, address)
    moved("copied", lambda tally: read.copy_to(written, tally))


@data.command("rm")
@click.argument("address")
@target_options
@click.option("-r", "--recursive", is_flag=True, help="Delete folders, too, with everything in them.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def rm(address: str, project: ProjectOptions, *, recursive: bool, yes: bool) -> None:
    """Delete files of a datastore, after a confirmation.

    \b
    aml-train data rm azureml://datastores/workspaceblobstore/paths/old.csv
    aml-train data rm --recursive azureml://datastores/workspaceblobstore/paths/images/
    """
    _writable(address)
    place = _place(project, address)
    found = place.to_remove(recursive=recursive)
    if not yes:
        total = size(sum(entry.size for entry in found))
        click.confirm(f"Delete {len(found):,} files ({total}) of {place.storage.place}?", abort=True, err=True)
    moved("deleted", lambda tally: place.remove(found, tally))


def moved(verb: str, work: Callable[[Any], _Result], *, quiet: bool = False) -> _Result:
    """Do the work with its progress on stderr; print the result on stdout.

    With *quiet*, the result is not printed.
    """
    tally = Tally()
    began = time.monotonic()
    try:
        with _shown(verb, tally, sys.stderr):
            result = work(tally)
    except KeyboardInterrupt:
        raise CancelledError(
            f"Interrupted: {verb} {_amount(tally)}.", hint="Run the same command again: it continues from here."
        ) from None
    if not quiet:
        click.echo(_summary(verb, tally, time.monotonic() - began))
    return result


def _amount(tally: Tally) -> str:
    """Return the progress in a few words, such as ``3 of 4 files, 1 MB of 2 MB``."""
    done = tally.sent_files + tally.same_files
    total = f" of {tally.files:,}" if tally.counted else f" of {tally.files:,} so far"
    moved = tally.sent_bytes + tally.same_bytes
    return f"{done:,}{total} files, {size(moved)} of {size(tally.size)}"


def _summary(verb: str, tally: Tally, seconds: float) -> str:
    """Return the result in one line, such as ``sent 12 files (3.4 MB) in 1.2 s``."""
    noun = "file" if tally.sent_files == 1 else "files"
    text = f"{verb} {tally.sent_files:,} {noun} ({size(tally.sent_bytes)}) in {duration(seconds)}"
    if tally.same_files:
        text += f"; {tally.same_files:,} {'was' if tally.same_files == 1 else 'were'} there already"
    if tally.unchecked:
        text += f"; {tally.unchecked:,} without a stored checksum, checked by size alone"
    return text


@contextlib.contextmanager
def _shown(verb: str, tally: Tally, file: TextIO) -> Iterator[None]:
    """Show the progress on *file*, while the context lasts."""
    ended, began = threading.Event(), time.monotonic()
    live = LiveStages(Console(file=file), len(verb)) if file.isatty() else None

    def show() -> None:
        while not ended.wait(_BAR_SECONDS if live is not None else _LINE_SECONDS):
            if live is None:
                file.write(f"· {verb}: {_amount(tally)}\n")
                file.flush()
                continue
            done = tally.sent_bytes + tally.same_bytes
            speed = f"{size(done / max(time.monotonic() - began, 0.001))}/s"
            total = max(tally.size, 1) if tally.counted else None
            live.advance(verb, "", done=min(done, tally.size), total=total, amount=f"{_amount(tally)}, {speed}")

    thread = threading.Thread(target=show, name="progress", daemon=True)
    if live is not None:
        live.start(verb, "")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if live is not None:
            live.close()
