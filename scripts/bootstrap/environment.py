"""The virtual environment: the lock file's packages, and the project itself."""

from __future__ import annotations

import compileall
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts.bootstrap.commands import CommandFailedError, Shell, last_line
from scripts.bootstrap.sources import client_v1_source, venv_source

_STAMP = ".aml-train-source"
_CLIENT_V1 = Path(".aml-train/client-v1")
_PACKAGE_FOLDERS = ("runner", "action")
# Seconds and attempts. By themselves uv waits 30 s for an answer and 60 s for the compiler, and pip 15 s: too little for slow registries and machines.
_UV_PATIENCE = {"UV_HTTP_TIMEOUT": "120", "UV_HTTP_RETRIES": "5", "UV_COMPILE_BYTECODE_TIMEOUT": "600"}
_PIP_PATIENCE = {"PIP_DEFAULT_TIMEOUT": "120"}


def is_up_to_date(root: Path, python: tuple[int, int]) -> bool:
    """Whether ``.venv`` was made from the present lock file and project metadata."""
    stamp = root / ".venv" / _STAMP
    return (
        stamp.exists()
        and (root / ".venv/bin/python").exists()
        and stamp.read_text(encoding="utf-8") == venv_source(root, python)
    )


def create_venv(shell: Shell, python: tuple[int, int]) -> None:
    """Make ``.venv``: with uv, which is several times as fast, or else with pip."""
    root = shell.root
    source = venv_source(root, python)
    (root / ".venv" / _STAMP).unlink(missing_ok=True)
    try:
        uv = _get_uv(shell)
    except CommandFailedError as error:
        shell.say(f"    uv cannot be had ({last_line(error.output)}); pip does it, more slowly")
        _install_with_pip(shell)
    else:
        _install_with_uv(shell, uv)
    _write(root / ".venv" / _STAMP, source)


def has_client_v1(root: Path, python: tuple[int, int]) -> bool:
    """Whether azureml-core's environment was made from the present lock file."""
    stamp = root / _CLIENT_V1 / _STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == client_v1_source(root, python)


def create_client_v1(shell: Shell, python: tuple[int, int]) -> None:
    """Make the environment of azureml-core, with uv or with pip as `create_venv` does."""
    stamp, target = shell.root / _CLIENT_V1 / _STAMP, str(_CLIENT_V1)
    lock = ["--require-hashes", "-r", "requirements/client.txt"]
    stamp.unlink(missing_ok=True)
    try:
        uv = _get_uv(shell)
    except CommandFailedError as error:
        shell.say(f"    uv cannot be had ({last_line(error.output)}); pip does it, more slowly")
        shell.run([_base_python(), "-m", "venv", "--clear", target])
        shell.run_patiently(
            [f"{target}/bin/python", "-m", "pip", "install", "--quiet", *lock], environment=_unless_set(_PIP_PATIENCE)
        )
    else:
        settings = _uv_settings()
        shell.run([uv, "venv", "--clear", "--quiet", "--python", _base_python(), target], environment=settings)
        install = [uv, "pip", "install", "--quiet", "--python", f"{target}/bin/python", "--compile-bytecode", *lock]
        shell.run_patiently(install, environment=settings)
    _write(stamp, client_v1_source(shell.root, python))


def _uv_settings() -> dict[str, str]:
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1", **_unless_set(_UV_PATIENCE)}
    if "PIP_INDEX_URL" in os.environ:
        settings["UV_DEFAULT_INDEX"] = os.environ["PIP_INDEX_URL"]
    return settings


def _unless_set(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in os.environ}


def _base_python() -> str:
    """Return the interpreter beneath the environment that this may itself run in."""
    return getattr(sys, "_base_executable", None) or sys.executable


def _get_uv(shell: Shell) -> str:
    tools = shell.root / ".aml-train/tools"
    uv = tools / "bin/uv"
    if not uv.exists():
        shell.run([_base_python(), "-m", "venv", "--clear", str(tools)])
        install_into_tools(shell, "requirements/tools.txt")
    return str(uv)


def install_into_tools(shell: Shell, requirements: str) -> None:
    """Install a lock file into the tools' environment; create it if it is missing."""
    tools = shell.root / ".aml-train/tools"
    if not (tools / "bin/pip").exists():
        shell.run([_base_python(), "-m", "venv", "--clear", str(tools)])
    shell.run_patiently(
        [str(tools / "bin/pip"), "install", "--quiet", "--no-deps", "--require-hashes", "-r", requirements],
        environment=_unless_set(_PIP_PATIENCE),
    )


def _install_with_uv(shell: Shell, uv: str) -> None:
    environment = _uv_settings()
    keep = "--allow-existing" if _is_of_this_python(shell.root / ".venv") else "--clear"
    shell.run([uv, "venv", keep, "--quiet", "--python", _base_python(), ".venv"], environment=environment)
    into = ["--quiet", "--python", ".venv/bin/python"]
    shell.run_patiently(
        [uv, "pip", "sync", *into, "--require-hashes", "--compile-bytecode", "requirements/dev.txt"],
        environment=environment,
    )
    shell.run_patiently([uv, "pip", "install", *into, "--no-deps", "--editable", "."], environment=environment)


def _is_of_this_python(venv: Path) -> bool:
    return (venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages").is_dir()


def _install_with_pip(shell: Shell) -> None:
    shell.run([_base_python(), "-m", "venv", "--clear", ".venv"])
    pip = [".venv/bin/python", "-m", "pip", "install", "--quiet"]
    patience = _unless_set(_PIP_PATIENCE)
    shell.run_patiently([*pip, "--require-hashes", "-r", "requirements/dev.txt"], environment=patience)
    shell.run_patiently([*pip, "--no-deps", "--editable", "."], environment=patience)
    shell.run([".venv/bin/python", "-m", "compileall", "-q", "-j", "0", ".venv/lib"])


def compile_packages(root: Path) -> None:
    """Update the project's bytecode, regardless of PYTHONDONTWRITEBYTECODE."""
    for folder in _PACKAGE_FOLDERS:
        compileall.compile_dir(root / folder, quiet=2)


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
