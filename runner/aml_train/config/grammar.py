"""The grammar of aml-train.yml. docs/configuration.md has the same keys."""

from __future__ import annotations

import re
from typing import Any, Final

from aml_train.config.checks_grammar import CHECKS_KEY
from aml_train.config.job_grammar import ASSET_NAME, JOB
from aml_train.config.nodes import Faults, Node, ScalarNode, shown
from aml_train.config.shapes import Choice, Duration, Text, Variable, mismatch, needs_quotes
from aml_train.config.structures import Either, Items, Key, Record, Table
from aml_train.config.tests_grammar import inside, tests_grammar
from aml_train.gate.rules import parse_rule
from aml_train.references import ImageRef

_VARIABLES: Final = Table(
    value=Variable(),
    noun="a mapping of names to text",
    key=Text(noun="letters, digits and `_`", pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
)
_VERSION: Final = r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?"
_HOST: Final = (
    r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+(?::[0-9]{1,5})?"
)
_PUSH_HOST: Final = rf"(?:{_HOST}|localhost:[0-9]{{1,5}})"
_GUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_REPOSITORY_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"


def _requirement(text: str) -> None:
    if text.startswith("-"):
        raise ValueError(f"`{shown(text)}` is an option of pip; options go into a requirements file")
    # A plain name, extras and versions need no parser, whose import would cost more than the rest of the check.
    if re.fullmatch(
        r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[a-z0-9,_-]+\])?(?:==[0-9]+(?:\.[0-9]+)*)?", text
    ):
        return
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"`{shown(text)}`: {str(error).splitlines()[0]}") from error


class _PackageVersion:
    """``true`` or ``latest`` for no pin, ``false`` for not at all, or a version."""

    noun = 'true, false, `latest`, or a version such as "1.62.0"'

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode) or node.kind == "null":
            return mismatch(node, name, self.noun, faults)
        if node.kind == "bool":
            return "latest" if node.value else None
        if node.kind != "text":
            return needs_quotes(node, name, self.noun, faults)
        return Text(noun=self.noun, pattern=f"latest|{_VERSION}").check(node, name, faults)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": f"^(?:latest|{_VERSION})$"}]}


_REQUIREMENT: Final = Text(noun="a requirement (PEP 508), such as `scikit-learn>=1.7`", rule=_requirement)
_REQUIREMENTS: Final = Items(item=_REQUIREMENT, noun="a list of requirements")
_PATH: Final = Text(noun="a path")
_RULE: Final = Text(noun="a rule such as '>= 0.95' or 'min < 0.2'", rule=parse_rule, remedy="write such as '>= 0.95'")
_GLOBS: Final = Text(noun="a glob pattern")

IMAGE: Final = Record(
    noun="a mapping with `base`",
    later=("ofed", "conda", "dockerfile", "run", "copy", "user"),
    keys={
        "base": Key(
            Text(noun="an image reference, such as `python:3.11-slim`", rule=ImageRef.parse, convert=ImageRef.parse),
            "Image to build from, with tag or digest.",
            required=True,
        ),
        "apt": Key(
            Items(
                noun="a list of Debian packages",
                item=Text(
                    noun="a Debian package, such as `libgl1` or `libgl1=1.6.0-1`",
                    pattern=r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+~:-]+)?",
                ),
            ),
            "Debian packages, optionally `name=version`.",
        ),
        "pip": Key(
            Either(
                noun="the path of a requirements file, a list of requirements, or both as {requirements, packages}",
                scalar=_PATH,
                items=_REQUIREMENTS,
                keys=Record(
                    noun="a mapping with `requirements` and `packages`",
                    keys={
                        "requirements": Key(_PATH, "Path of a requirements file inside the project."),
                        "packages": Key(_REQUIREMENTS, "Requirements (PEP 508)."),
                    },
                ),
            ),
            "Python packages: the path of a requirements file, a list of requirements, or both.",
        ),
        "azureml-mlflow": Key(
            _PackageVersion(), "azureml-mlflow: a version, `latest` or true for no pin, false for none."
        ),
        "azureml-defaults": Key(_PackageVersion(), "azureml-defaults, in the same way."),
        "env": Key(_VARIABLES, "Environment variables of the image. No secrets: an image can be read."),
        "repository": Key(
            Text(
                noun="lower-case words joined by `/`, `-`, `_` or `.`",
                pattern=rf"{_REPOSITORY_PART}(?:/{_REPOSITORY_PART})*",
            ),
            "Repository in the registry; the project folder's name by default.",
        ),
        "platform": Key(
            Choice(words=("linux/amd64", "linux/arm64")), "`linux/amd64` or `linux/arm64`; the engine's by default."
        ),
        "checks": CHECKS_KEY,
    },
)
TESTS: Final = tests_grammar(_VARIABLES)
MODEL: Final = Record(
    noun="a mapping with `name` and `path` or `output`",
    one_of=("path", "output"),
    keys={
        "name": Key(
            Text(noun="letters, digits, `.`, `_` and `-`", pattern=ASSET_NAME), "Name of the model.", required=True
        ),
        "path": Key(
            Text(noun="a path among the job's artefacts, such as `outputs/model`", rule=inside),
            "Path among the job's artefacts, such as `outputs/model`.",
        ),
        "output": Key(
            Text(noun="the name of an output of the job"), "Name of one of the job's outputs, instead of `path`."
        ),
        "type": Key(
            Choice(words=("custom_model", "mlflow_model", "triton_model")),
            "`custom_model` (the default), `mlflow_model` or `triton_model`.",
        ),
        "description": Key(Text(), "Free text."),
        "tags": Key(Table(value=Text(), noun="a mapping of text to text"), "Tags, beside those of aml-train."),
    },
)
_COMPUTE: Final = Key(Text(noun="a compute's name"), "Compute that replaces the job's.")
_LOCAL: Final = Either(
    noun="a mapping, or nothing",
    nothing=True,
    keys=Record(
        noun="a mapping",
        keys={"compute": _COMPUTE},
        hints=dict.fromkeys(
            ("subscription-id", "resource-group", "workspace"), "the local target needs no workspace"
        ),
    ),
)
WORKSPACE: Final = Record(
    noun="a mapping with such keys as `workspace`",
    keys={
        "subscription-id": Key(
            Text(noun="a subscription's GUID", pattern=_GUID), "Subscription; by default that of `config.json`."
        ),
        "resource-group": Key(
            Text(noun="a resource group's name", pattern=r"[\w().-]{1,90}"),
            "Resource group; by default that of `config.json`.",
        ),
        "workspace": Key(
            Text(noun="a workspace's name", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{1,254}"),
            "Workspace; by default that of `config.json`.",
        ),
        "registry": Key(
            Text(noun="a registry's host, such as `myregistry.azurecr.io`", pattern=_HOST),
            "Registry that the image is pushed to; the workspace's own by default.",
        ),
        "push-registry": Key(
            Text(noun="a registry's host, such as `localhost:5000`", pattern=_PUSH_HOST),
            "Name by which the Docker engine reaches that registry, where it is another.",
        ),
        "registry-user": Key(
            Text(noun="a user's name", pattern=r"[^\s:]{1,255}"),
            "User who signs in to that registry with a password: an admin user, a registry's token, or another registry's user.",
        ),
        "registry-password-variable": Key(
            Text(noun="an environment variable's name", pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
            "Environment variable that holds that password; `AML_TRAIN_REGISTRY_PASSWORD` by default.",
        ),
        "compute": _COMPUTE,
    },
)
DOCUMENT: Final = Record(
    noun="a mapping",
    later=("runconfig",),
    hints=dict.fromkeys(JOB.keys, "it belongs to the job: put it into the job's YAML, and name that with `job`"),
    keys={
        "job": Key(
            Either(noun="the path of a job's YAML, or the job itself", scalar=_PATH, keys=JOB),
            "Command job of the AzureML CLI v2: a path relative to this file, or the job itself.",
            required=True,
        ),
        "image": Key(IMAGE, "Image that is built, tested, and replaces the job's environment."),
        "tests": Key(TESTS, "Tests that run inside the image before anything is submitted."),
        "gate": Key(
            Table(
                noun="a mapping of metrics to rules",
                value=Either(
                    noun="a rule such as '>= 0.95', or a list of rules",
                    scalar=_RULE,
                    items=Items(item=_RULE, noun="a list of rules", least=1),
                ),
                key=Text(noun="a metric's name"),
            ),
            "Rules that the metrics must meet: a rule, or a list of them, for each metric.",
        ),
        "model": Key(MODEL, "Model that is registered after the gate."),
        "watch": Key(
            Record(
                noun="a mapping",
                keys={
                    "timeout": Key(Duration(), "Bound of the whole job; no bound by default."),
                    "queue-timeout": Key(Duration(), "Bound of the time before the job runs; no bound by default."),
                    "on-cancel": Key(
                        Choice(words=("cancel", "detach")),
                        "What an interrupted run does to its job: `cancel` (the default), or `detach`: it goes on.",
                    ),
                },
            ),
            "How long the job may take, and what becomes of it when the run is interrupted.",
        ),
        "target": Key(Text(noun="a target's name"), "Target where none is given; `local` by default."),
        "targets": Key(
            Table(
                noun="a mapping of targets",
                value=WORKSPACE,
                key=Text(noun="letters, digits, `_` and `-`", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]*"),
                special={"local": _LOCAL},
            ),
            "Workspaces by name. `local` is the local AzureML and needs no entry.",
        ),
    },
)
