"""Paths in a job's container, and the environment of its command. Pure.

The folders are those of Azure's compute instances and clusters: the working directory is
``/mnt/azureml/cr/j/<run>/exe/wd`` and data is below ``/mnt/azureml/cr/j/<run>/cap/data-capability/wd``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from aml_emulator.executor.spec import ExecutorSettings, InputSpec, OutputSpec, RunSpec

EMULATOR_HOST = "azureml"
"""The emulator's name on a job's network."""

CA_BUNDLE_PATH = "/mnt/azureml/cr/ca-bundle.pem"

CA_VARIABLES = (
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
"""The variables by which requests, OpenSSL, curl, pip, git and node find their CAs."""

CAPTURED_FOLDERS = ("outputs", "logs")
"""Folders of the working directory that become artefacts of the run."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnsafePathError(ValueError):
    """A name would lead outside the folder that it belongs to."""


def safe_relative(name: str) -> str:
    """Return *name*, a relative path with ``/``, in its normal form.

    Raises:
        UnsafePathError: the path is absolute, empty, or climbs with ``..``, or it holds a NUL.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise UnsafePathError(f"{name!r} is not a path inside its folder")
    return str(path)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The folders of one run within its container; every path is absolute."""

    run_id: str

    @property
    def root(self) -> str:
        return f"/mnt/azureml/cr/j/{self.run_id}"

    @property
    def working_directory(self) -> str:
        return f"{self.root}/exe/wd"

    @property
    def data(self) -> str:
        return f"{self.root}/cap/data-capability/wd"

    def input_path(self, item: InputSpec) -> str:
        """Return the path that the command gets for an input that is not a literal."""
        if (item.location is None and item.url is None) or not _NAME.fullmatch(item.name):
            raise UnsafePathError(f"input {item.name!r} has no place in the container")
        folder = f"{self.data}/INPUT_{item.name}"
        if item.url is not None and item.kind == "uri_file":
            return f"{folder}/{safe_relative(url_file_name(item.url))}"
        if item.kind == "uri_file" and item.location is not None:
            return f"{folder}/{safe_relative(item.location.prefix).rpartition('/')[2]}"
        return folder

    def output_path(self, item: OutputSpec) -> str:
        """Return the command's path of a named output: a folder, or a file to write."""
        if not _NAME.fullmatch(item.name):
            raise UnsafePathError(f"output {item.name!r} has no place in the container")
        return f"{self.data}/{item.name}"

    def input_values(self, spec: RunSpec) -> dict[str, str]:
        """Return for each input what ``${{inputs.<name>}}`` stands for."""
        return {item.name: self.input_path(item) if item.literal is None else item.literal for item in spec.inputs}

    def output_values(self, spec: RunSpec) -> dict[str, str]:
        """Return for each named output what ``${{outputs.<name>}}`` stands for."""
        return {item.name: item.uri if item.mode == "Direct" else self.output_path(item) for item in spec.outputs}

    def path_variables(self, spec: RunSpec) -> dict[str, str]:
        """Return the variables with the paths of a job's data, as AzureML sets them.

        These are ``AZURE_ML_INPUT_<name>`` and ``AZURE_ML_OUTPUT_<name>``.
        """
        inputs = {item.name for item in spec.inputs if item.kind != "literal"}
        found = {f"AZURE_ML_INPUT_{key}": value for key, value in self.input_values(spec).items() if key in inputs}
        return found | {f"AZURE_ML_OUTPUT_{key}": value for key, value in self.output_values(spec).items()}

    def folders(self, spec: RunSpec) -> tuple[str, ...]:
        """Return the folders that are there before the command starts, parents first."""
        written = (item for item in spec.outputs if item.kind != "uri_file" and item.mode != "Direct")
        outputs = (self.output_path(item) for item in written)
        captured = (f"{self.working_directory}/{name}" for name in CAPTURED_FOLDERS)
        return (self.working_directory, self.data, *captured, *outputs)


def url_file_name(url: str) -> str:
    """Return the name of the file at *url*, its path's last part; empty if none."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def engine_image(reference: str, settings: ExecutorSettings) -> str:
    """Return the name by which the engine finds *reference*, with a tag or digest.

    An image of the emulator's own registry is known to the engine under another host; without a tag it is ``latest``.
    """
    host, slash, rest = reference.partition("/")
    if slash and host == settings.registry_login_server:
        reference = f"{settings.registry_engine_name}/{rest}"
    last = reference.rpartition("/")[2]
    return reference if "@" in reference or ":" in last else f"{reference}:latest"


def environment(
    spec: RunSpec, settings: ExecutorSettings, *, emulator_host: str = EMULATOR_HOST, nodes: tuple[str, ...] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the command's environment, and the user's variables that are replaced.

    The user's variables come first; what the emulator needs to be reached stays. Of NO_PROXY both are kept, and the names
    of *nodes* are added.
    """
    proxy = f"http://{emulator_host}:{settings.proxy_port}"
    ours = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), proxy)
    ours |= dict.fromkeys(CA_VARIABLES, CA_BUNDLE_PATH)
    direct = no_proxy(spec, nodes)
    ours |= {"NO_PROXY": direct, "no_proxy": direct} | dict(spec.service_environment)
    user = {**Layout(run_id=spec.run_id).path_variables(spec), **spec.environment_variables}
    lost = tuple(name for name in user if name in ours and user[name] != ours[name] and name.upper() != "NO_PROXY")
    return dict(user) | ours, lost


def no_proxy(spec: RunSpec, nodes: tuple[str, ...]) -> str:
    """Return the hosts without proxy: this machine's, the job's *nodes*, the user's."""
    # Without ::1, which azureml-dataprep's engine (rslex 2.26) takes for a host with a port, and then ends with a panic.
    wanted = ["localhost", "127.0.0.1", *nodes]
    for name in ("NO_PROXY", "no_proxy"):
        wanted += [host.strip() for host in spec.environment_variables.get(name, "").split(",")]
    # A pattern for everything, or for the clouds that the emulator stands for, would lead past it.
    kept = (host for host in wanted if host and host != "*" and not _is_azure(host))
    return ",".join(dict.fromkeys(kept))


def _is_azure(pattern: str) -> bool:
    """Return whether a NO_PROXY entry covers hosts that the emulator answers for."""
    host = pattern.lstrip("*.").lower()
    clouds = ("azure.com", "azureml.ms", "microsoftonline.com", "windows.net", "azurecr.io")
    return any(host == cloud or host.endswith("." + cloud) or cloud.endswith("." + host) for cloud in clouds)
