"""Ask the base's own pip, before a build, whether the packages of an image fit together.

A step of a separate small build runs ``pip install --dry-run`` in the base: with its Python, its installed packages and its constraints, the
configured indexes, and the secrets as the image's own build has them. Only what pip itself calls a conflict, with all indexes answering, is one: whatever
else goes wrong is a remark, and the build shows what comes of it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from aml_train.core.answers import decode
from aml_train.core.docker import BuildCli
from aml_train.core.errors import AmlTrainError, ImageError
from aml_train.core.events import Listener
from aml_train.image.build.build import Build, Cache, run_build, secret_masker
from aml_train.image.build.pip_output import conflict_of
from aml_train.image.dockerfile.render import SOLVE_ARGUMENT
from aml_train.image.inputs import CONSTRAINTS, SOLVE, SOLVED, build_script
from aml_train.image.readiness.facts import check_shape
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.spec import ImageSpec

_ATTEMPT: Final = {"code": int, "output": str, "versions": dict, "missed": list}
_PERHAPS: Final = (dict, type(None))
_ANSWER: Final = {"python": str, "pins": dict, "steps": list, "together": _PERHAPS, "newest": _PERHAPS}
_REQUESTED: Final = re.compile(r"The user requested (?P<kind>\(constraint\) )?(?P<what>(?P<name>[\w.-]+).*)")
_TIMED_OUT: Final = 124
_UNRESOLVED: Final = "The packages were not resolved before the build: "


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The answer of the base's pip.

    Attributes:
        versions: of the packages that it would install; name → version.
        remarks: what the user should know, such as why it could not be asked.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def solve(
    spec: ImageSpec,
    *,
    cli: Callable[[], BuildCli],
    listener: Listener,
    builder: str = "default",
    logins: Mapping[str, RegistryAuth] | None = None,
) -> Solution:
    """Return what pip would install into the base of *spec*.

    Args:
        cli: finds the command that builds.
        listener: receives the progress of the small build.
        builder: the builder of buildx.
        logins: host (and port) → credentials, for the base.

    Raises:
        ImageError: no versions fit together.
    """
    if not spec.solve:
        return Solution()
    try:
        command = cli()
        small = spec.with_dockerfile(spec.solve, {**spec.files, SOLVE: build_script(SOLVE)})
        small = replace(small, secrets=spec.secrets, build_args={SOLVE_ARGUMENT: uuid.uuid4().hex})
        build = Build(spec=small, cache=Cache(logins=logins or {}))
        text = run_build(build, partial(_command, command, builder), _result, cli=command, listener=listener)
        answer = decode(text.encode())
        check_shape(answer, _ANSWER, "the answer")
        for one in (*answer["steps"], *filter(None, (answer["together"], answer["newest"]))):
            check_shape(one, _ATTEMPT, "an attempt")
    except (AmlTrainError, OSError, ValueError) as error:
        why = str(error).rstrip().rpartition("\n")[2].strip()  # the last line of what a step wrote
        return Solution(remarks=(_UNRESOLVED + why,))
    masker = secret_masker(command.environ.get(one.env, "") for one in spec.secrets.values())
    return _judge(spec, answer, masker.mask)


def _command(cli: BuildCli, builder: str, folder: Path) -> list[str]:
    buildx = ["buildx", "build", f"--builder={builder}", "--provenance=false"]
    return [cli.path, *(buildx if cli.buildx else ["build"]), f"--output=type=local,dest={folder / 'out'}"]


def _result(folder: Path) -> str:
    return (folder / "out" / SOLVED).read_text()


def _judge(spec: ImageSpec, answer: Mapping[str, Any], mask: Callable[[str], str]) -> Solution:
    """Return what the answer comes to. Pure.

    A conflict of one step ends the build, too. Packages of several steps that only together do not fit are installed all the same: those of a
    later step replace those of an earlier one.
    """
    together, steps, newest = answer["together"], answer["steps"], answer["newest"]
    base = f"{spec.base.reference.familiar} (Python {answer['python']})"
    for one in steps:
        if lines := _conflict(spec, answer, one):
            raise ImageError(
                mask(f"{spec.checks.where}: the packages for {base} do not fit together:{_listed(lines)}"),
                hint=_hint(spec, lines),
            )
    remarks = []
    if together and (lines := _conflict(spec, answer, together)):
        remarks.append(
            f"The packages of the image's steps do not fit together, and those of the later steps replace earlier ones:{_listed(lines)}"
        )
    if newest:
        lines = _conflict(spec, answer, newest)
        why = f":{_listed(lines)}\n{_hint(spec, lines)}" if lines else "."
        remarks.append(f"pip leaves {newest.get('request')} for an older version{why}")
    versions: dict[str, str] = {}
    for one in steps or filter(None, [together]):
        if one["code"] != 0:
            remarks.append(_UNRESOLVED + _reason(one))
        versions |= {str(name): str(version) for name, version in one["versions"].items()}
    return Solution(versions=versions, remarks=tuple(dict.fromkeys(map(mask, remarks))))


def _conflict(spec: ImageSpec, answer: Mapping[str, Any], attempt: Mapping[str, Any]) -> list[str]:
    """Return who wants what, in lines; empty if pip names no conflict, or an index did not answer."""
    if attempt["missed"] or attempt["code"] == 0:
        return []
    return [_told(spec, answer["pins"], line) for line in conflict_of(attempt["output"])]


def _told(spec: ImageSpec, pins: Mapping[str, str], line: str) -> str:
    """Return a line of a conflict, in which a constraint names the file that it is from."""
    requested = _REQUESTED.fullmatch(line)
    if requested is None or requested["kind"] is None:
        return line
    name = re.sub(r"[-_.]+", "[-_.]+", requested["name"])
    own = spec.files.get(CONSTRAINTS, b"").decode(errors="replace")
    files = {**{f"the base's {path}": str(text) for path, text in pins.items()}, "image.pip.constraints": own}
    line_of = re.compile(rf"(?im)^\s*{name}(?![\w.-])")
    where = next((where for where, text in files.items() if line_of.search(text)), None)
    return line if where is None else f"{requested['what']} is a constraint of {where}"


def _listed(lines: list[str]) -> str:
    return "".join(f"\n  {line}" for line in dict.fromkeys(lines))


def _hint(spec: ImageSpec, lines: list[str]) -> str:
    text = "\n".join(lines)
    ways = []
    if "azureml-defaults" in spec.checks.packages and "azureml-d" in text:
        ways.append("`azureml-mlflow:` in place of `azureml-defaults:` needs fewer packages")
    if "constraint of the base's" in text:
        ways.append("`image.constraints: torch-only` keeps only torch and what is built for it, `none` nothing")
    return "; or ".join([*ways, "ask for other versions, or take another base"]) + "."


def _reason(attempt: Mapping[str, Any]) -> str:
    """Return in a line why pip came to no result."""
    if attempt["missed"]:
        return f"an index did not answer: {str(attempt['missed'][0]).strip()}"
    if attempt["code"] == _TIMED_OUT:
        return "pip takes too long to find versions that fit together; pins help."
    lines = [line.strip() for line in attempt["output"].splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no reason is given"]
    return f"pip says: {errors[0].removeprefix('ERROR: ')}"
