"""The identity of a job: its definition, which is fixed at its submission. Pure.

Tags, metrics and files of a job can be written by the job itself and by every member of the workspace. Its definition cannot: so it shows
whether a job is the one that a configuration gives. A part of it has several names, such as an image's digest and its environment's
version; two parts are the same if they have one in common.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from aml_train.config.job.model import Place
from aml_train.config.job.paths import is_local
from aml_train.config.sections.watch import RESUME_INPUT
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.core.references import is_digest
from aml_train.core.tags import Tag
from aml_train.jobs.snapshot import read_snapshot, upload_hash
from aml_train.jobs.spec import SERVERLESS, JobSpec, artifacts_at, earlier_names, run_configuration

#: Is in an expected name in place of what is known at the submission alone: the version of a label.
_ANY: Final = "\0"
#: Is among the names of a part that need not be there.
_ABSENT: Final = "\1"
#: Where azure-ai-ml puts local files (``_artifacts/_constants.py``, 1.34.1).
_UPLOADS: Final = "azureml://datastores/workspaceblobstore/paths/LocalUpload/"
#: What the service fills in where a job does not say it.
_DEFAULTS: Final = {"instance_count": "1", "shm_size": "2g"}
_VERSION: Final = re.compile(
    r"(?:azureml:)?/*(?:(?:subscriptions|locations)/.*/|registries/(?P<registry>[^/]+)/)"
    r"(?:data|models|codes|environments|components)/(?P<name>[^/]+)/(?:versions|labels)/(?P<version>[^/]+)",
    re.IGNORECASE,
)
_SHORT: Final = re.compile(r"azureml:(?P<name>[^/:@]+):(?P<version>[^/:@]+)")
_LABEL: Final = re.compile(r"azureml:(?P<name>[^/:@]+)@[^/:@]+|(?P<long>azureml:.*)/labels/[^/]+", re.IGNORECASE)
_DATASTORE: Final = re.compile(r"azureml:/.*?/(?P<path>datastores/[^/]+/paths/.*)", re.IGNORECASE | re.DOTALL)

_MOST_NAMED: Final = 4
_LONGEST: Final = 100

Names = frozenset[str]
"""The names by which a part is known."""
Parts = dict[str, Names]
NamesAt = Callable[[Place, Any], Names]
"""Returns the names of the code or the environment at a place of a document, where its value is given."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A job's definition: part, such as ``jobs.train.command``, to its names.

    Attributes:
        parts: what can be compared: command, code, image, inputs, environment variables, distribution, resources, compute, services.
    """

    parts: Mapping[str, Names]


def digests_of(identity: Identity) -> frozenset[str]:
    """Return the manifest digests of the images that a job runs in."""
    return frozenset(name for part in identity.parts.values() for name in part if is_digest(name))


def identity_difference(expected: Identity, found: Identity) -> tuple[str, ...]:
    """Return in words what of the job *found* is not as *expected*; nothing if it is."""
    names = dict.fromkeys((*expected.parts, *found.parts))
    return tuple(_in_words(part) for part in names if not _same(expected.parts.get(part), found.parts.get(part)))


def in_one_line(found: Sequence[str]) -> str:
    """Return what differs as a part of a sentence, of bounded length."""
    shown = [" ".join(text.split())[:_LONGEST] for text in found[:_MOST_NAMED]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _same(expected: Names | None, found: Names | None) -> bool:
    if expected is None or found is None:
        return expected is found or _ABSENT in (expected or ())
    return bool(expected & found) or any(
        re.fullmatch(r"[^/]+".join(map(re.escape, one.split(_ANY))), name)
        for one in expected
        if _ANY in one
        for name in found
    )


_NOUNS: Final = {
    "code": "the code",
    "environment": "the image",
    "environment_variables": "the environment variable",
    "inputs": "the input",
}


def _in_words(part: str) -> str:
    nodes = []
    while part.startswith("jobs."):
        _, node, part = part.split(".", 2)
        nodes.append(node)
    group, _, member = part.partition(".")
    noun = f"{_NOUNS[group]} {member}".rstrip() if group in _NOUNS else f"`{part}`"
    return f"{noun} of the node {'/'.join(nodes)}" if nodes else noun


def job_identity(job: JobSpec, *, files: bool = False) -> Identity:
    """Return what *job* is once it is submitted.

    Args:
        job: what is submitted.
        files: whether its code is known by its files alone, as the storage lists them, and not by the hash that an
            asset was registered with.

    Raises:
        InvalidError: a file of its code cannot be read, or has changed.
    """
    if job.runconfig is not None:
        code_hash = read_snapshot(job.code or FileSet(root=job.directory, entries=())).content_hash
        return run_identity(run_configuration(job), code_hash, job.directory)
    folders = {(): job.code, **job.folders}
    known: dict[int, Names] = {}

    def code(place: Place, value: object) -> Names:
        folder = folders.get(place)
        if folder is None and value and is_local(value) and (path := job.directory / str(value)).is_file():
            entry = FileEntry(path=path.name, executable=False, size=path.stat().st_size)
            folder = FileSet(root=path.parent, entries=(entry,))
        if folder is not None:
            if id(folder) not in known:  # nodes of one folder share it
                snapshot = read_snapshot(folder)
                known[id(folder)] = code_names(
                    **({"listing": snapshot.listing} if files else {"content_hash": snapshot.content_hash})
                )
            return known[id(folder)]
        return frozenset((version_of(str(value)),)) if value else frozenset()

    def environment(_place: Place, value: object) -> Names:
        return environment_names(value, job.directory)

    def upload(path: str) -> str:
        return _uploaded(job.directory, path)

    parts = parts_of_document(job.document, code=code, environment=environment, upload=upload)
    return may_resume(Identity(parts=parts), job.name, job.document.get("properties") or {})


def may_resume(identity: Identity, name: str, properties: Mapping[str, str]) -> Identity:
    """Return what the job *name* may be, if its *properties* declare ``resume``: any earlier attempt's checkpoints may be its input.

    Which attempt left some when this one was submitted is not known later. That the attempt is no foreign job is looked at by
    :class:`aml_train.jobs.attempts.Comparison`.
    """
    if Tag.RESUME not in properties:
        return identity
    addresses = (artifacts_at(one, properties[Tag.RESUME]) for one in earlier_names(name))
    return Identity(parts={**identity.parts, f"inputs.{RESUME_INPUT}": frozenset((_ABSENT, *addresses))})


def run_identity(
    values: Mapping[str, Any], code_hash: str | None, directory: Path, *, shown: bool = False
) -> Identity:
    """Return the identity of a run of the SDK v1.

    Args:
        values: its configuration, in camelCase; what is left out has azureml-core's default.
        code_hash: AzureML's hash of the files of its snapshot; None if they cannot be read.
        directory: the folder that paths of its environment start from.
        shown: whether the service shows these values: it adds to an environment of the workspace what that is made of.
    """
    environment = values.get("environment") or {}
    docker, inner = values.get("docker") or {}, environment.get("docker") or {}
    found: Parts = {
        "code": code_names(content_hash=code_hash),
        "environment": _run_environment(environment, directory, shown=shown),
    }

    def add(part: str, value: Any) -> None:
        found[part] = frozenset((value if isinstance(value, str) else _text(value),))

    command = values.get("command") or ""
    add("command", command if isinstance(command, str) else " ".join(map(str, command)))
    add("script", str(values.get("script") or "") if not command else "")
    add("arguments", list(values.get("arguments") or ()) if not command else [])
    add("compute", _last(str(values.get("target") or "")))
    framework, communicator = str(values.get("framework") or "Python"), str(values.get("communicator") or "None")
    counts = {
        "nodes": values.get("nodeCount") or 1,
        "mpi": (values.get("mpi") or {}).get("processCountPerNode") or 1,
        "pytorch": (values.get("pytorch") or {}).get("processCount"),
        "tensorflow": (values.get("tensorflow") or {}).get("workerCount") or 1,
    }
    add("distribution", _text({"framework": framework, "communicator": communicator, **counts}, lower=True))
    add("resources", list(docker.get("arguments") or inner.get("arguments") or ()))
    add("python", str((environment.get("python") or {}).get("interpreterPath") or "python"))
    variables = {**(environment.get("environmentVariables") or {}), **(values.get("environmentVariables") or {})}
    for name, value in variables.items():
        if name != "EXAMPLE_ENV_VAR":  # azureml-core's own example, which every environment has
            add(f"environment_variables.{name}", str(value))
    for name, value in (values.get("data") or {}).items():
        add(f"inputs.{name}", value.get("dataLocation") or {})
    for name, value in (values.get("dataReferences") or {}).items():
        add(f"inputs.{name}", [str(value.get("dataStoreName")), str(value.get("pathOnDataStore") or "").strip("/")])
    return Identity(parts=found)


def _run_environment(given: Mapping[str, Any], directory: Path, *, shown: bool) -> Names:
    """Return the names of an environment of azureml-core."""
    docker, python = given.get("docker") or {}, given.get("python") or {}
    name, version = given.get("name"), given.get("version")
    own = {f"environment {name}", f"environment {name}:{version}"} if shown else set()
    if not docker and not python:  # the workspace's, by its name
        return frozenset((f"environment {name}:{version}" if version else f"environment {name}",))
    made = {"image": docker.get("baseImage"), "conda_file": None}
    if not python.get("userManagedDependencies"):
        made["conda_file"] = python.get("condaDependenciesFile") or python.get("condaDependencies")
    if docker.get("baseDockerfile"):
        made["image"] = f"Dockerfile {docker['baseDockerfile']}"
    return environment_names(made, directory) | own


def parts_of_document(
    document: Mapping[str, Any],
    *,
    code: NamesAt,
    environment: NamesAt,
    upload: Callable[[str], str] = str,
    place: Place = (),
    before: str = "",
) -> Parts:
    """Return the parts of a job or node, in the grammar of the CLI v2.

    Args:
        document: the job or the node; a component is in it, or its reference.
        code: names code; it gets the place of the code's mapping.
        environment: names an environment, in the same way.
        upload: returns the address of a local path's upload.
        place: the place of *document* in the job's.
        before: what the names of its parts begin with.
    """
    kind = str(document.get("type") or "command").lower()
    key = "trial" if kind == "sweep" else "component"
    inner = document.get(key)
    spec, at = (inner, (*place, key)) if isinstance(inner, Mapping) else (document, place)
    both = (spec, document) if spec is not document else (document,)
    found: Parts = {}

    def add(part: str, *names: str) -> None:
        found[before + part] = frozenset(names)

    def merged(name: str) -> dict[str, Any]:
        return {str(key): value for one in both for key, value in (one.get(name) or {}).items()}

    add("type", kind)
    if document.get("compute") or not place:
        add("compute", _last(str(document.get("compute") or SERVERLESS)))
    for name, value in merged("inputs").items():
        declared = name not in (document.get("inputs") or {})
        if (text := _input(value, upload, declared=declared)) is not None:
            add(f"inputs.{name}", text)
    for name, node in (spec.get("jobs") or {}).items():
        found |= parts_of_document(
            node,
            code=code,
            environment=environment,
            upload=upload,
            place=(*at, "jobs", name),
            before=f"{before}jobs.{name}.",
        )
    if default := (spec.get("settings") or {}).get("default_compute"):
        add("settings.default_compute", _last(str(default)))
    if kind == "sweep":
        for name, value in (document.get("search_space") or {}).items():
            add(f"search_space.{name}", _text(_leaves(value)))
        add("objective", _text(document.get("objective"), lower=True))
        add("sampling_algorithm", _kind(document.get("sampling_algorithm")))
    if services := document.get("services"):
        add("services", _text({name: _kind(one) for name, one in services.items()}))
    if kind == "pipeline" or "jobs" in spec:
        return found
    for name, value in merged("environment_variables").items():
        add(f"environment_variables.{name}", str(value))
    distribution = document.get("distribution") or spec.get("distribution") or {}
    add(
        "distribution",
        _text({("type" if k == "distribution_type" else k): v for k, v in distribution.items()}, lower=True),
    )
    resources = {name: value for name, value in merged("resources").items() if _DEFAULTS.get(name) != str(value)}
    add("resources", _text(resources))
    if isinstance(inner, str):
        add("component", _reference(inner))
        return found
    add("command", str(spec.get("command") or "").strip())
    if names := code(at, spec.get("code")):
        found[f"{before}code"] = names
    found[f"{before}environment"] = environment(at, document.get("environment") or spec.get("environment"))
    return found


def _last(text: str) -> str:
    """Return the name at the end of a compute's reference."""
    return re.split(r"[/:]", text)[-1].lower()


def _kind(value: Any) -> str:
    """Return the type of a service or an algorithm, in either grammar's words."""
    text = str(value.get("type") or "") if isinstance(value, Mapping) else str(value or "")
    return text.replace("_", "").lower()


def _input(value: Any, upload: Callable[[str], str], *, declared: bool) -> str | None:
    """Return an input as text; of a component's declaration its default, or None."""
    if declared:
        value = value.get("default") if isinstance(value, Mapping) else value
        return None if value is None else str(value)
    if not isinstance(value, Mapping):
        return str(value)
    path = str(next((value[key] for key in ("path", "uri", "value") if value.get(key) is not None), ""))
    if "path" in value and is_local(path):
        return upload(path)
    return _reference(path).rstrip("/") if path.startswith(("azureml:", "/")) else path


def _uploaded(directory: Path, text: str) -> str:
    """Return the address that azure-ai-ml uploads a local path to."""
    path = (directory / text.removeprefix("file:")).resolve()
    return f"{_UPLOADS}{upload_hash(path)}/{path.name}"


def _leaves(value: Any) -> list[str]:
    """Return a distribution of the search space: its type, and its numbers in order."""
    if isinstance(value, Mapping):
        order = ("type", "min_value", "max_value", "mu", "sigma", "q", "values")
        return [leaf for key in order if value.get(key) is not None for leaf in _leaves(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in _leaves(one)]
    return [str(value)]


def _text(value: Any, *, lower: bool = False) -> str:
    """Return a setting as JSON of texts, without what is empty."""

    def plain(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {str(k): plain(v) for k, v in one.items() if v is not None and v != {} and v != []}
        return [plain(v) for v in one] if isinstance(one, list | tuple) else str(one)

    text = json.dumps(plain(value or {}), sort_keys=True, ensure_ascii=False)
    return text.lower() if lower else text


def code_names(version: str | None = None, *, content_hash: str | None = None, listing: str | None = None) -> Names:
    """Return the names of code: its asset's version, AzureML's hash, and its files."""
    return frozenset(
        filter(None, (version, content_hash and f"sha256:{content_hash}", listing and f"files:{listing}"))
    )


def environment_names(value: object, directory: Path) -> Names:
    """Return the names of an environment in the grammar of the CLI v2.

    Args:
        value: a reference, or what the environment is made of.
        directory: the folder that its paths start from.
    """

    if isinstance(value, str) and value.startswith("file:"):
        file = directory / value.removeprefix("file:")
        value, directory = yaml.safe_load(file.read_bytes()), file.parent
    if not isinstance(value, Mapping):
        return frozenset((_reference(str(value or "")),))
    image = str(value.get("image") or "")
    conda, build = value.get("conda_file"), value.get("build")
    if isinstance(conda, str) and is_local(conda) and "\n" not in conda:
        conda = (directory / conda.removeprefix("file:")).read_text(encoding="utf-8")
    if isinstance(conda, str):
        with contextlib.suppress(yaml.YAMLError):  # then its text counts
            conda = yaml.safe_load(conda)
    if isinstance(build, Mapping) and build.get("path"):
        path = str(build["path"])
        place = (_uploaded(directory, path) if is_local(path) else path).rpartition("/LocalUpload/")[2].rstrip("/")
        return frozenset((f"{place} {build.get('dockerfile_path') or 'Dockerfile'}",))
    name = image.partition("@")[2] or image
    return frozenset((f"{name} with {_text(conda)}" if conda else name,))


def _reference(text: str) -> str:
    """Return the name of a version, or, of a label, what every version's name is."""
    label = _LABEL.fullmatch(text)
    if label is None:
        return version_of(text)
    return f"{label['name']}:{_ANY}" if label["name"] else version_of(f"{label['long']}/versions/{_ANY}")


def version_of(path: str) -> str:
    """Return in short which data, code or environment *path* is.

    ``NAME:VERSION`` of an asset, else the address without a signature.

    Args:
        path: as in a job's document or in the service's answer.
    """
    if match := _SHORT.fullmatch(path):
        return f"{match['name']}:{match['version']}"
    if match := _VERSION.fullmatch(path):
        registry = f"{match['registry']}/" if match["registry"] else ""
        return f"{registry}{match['name']}:{match['version']}"
    if match := _DATASTORE.fullmatch(path):
        return f"azureml://{match['path']}"
    # Behind the question mark of an address may be a signature, and before its host a password.
    return re.sub(r"^(https?://)[^/@]*@", r"\1", path.partition("?")[0]) if "://" in path else path
