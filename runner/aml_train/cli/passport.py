"""The commands ``verify`` and ``model passport``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aml_train.cli.options import model_address, place_of
from aml_train.cli.output import json_option, print_lines, print_result
from aml_train.cli.project import ProjectOptions, target_options
from aml_train.config.load import load_passport
from aml_train.core.errors import PassportError
from aml_train.models.browse import find_model
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.manifest import SIGNATURE_FILE
from aml_train.pipeline.passport import open_verifier, policy_of

if TYPE_CHECKING:
    from aml_train.config.policy import PolicyConfig
    from aml_train.jobs.workspace import ModelView
    from aml_train.models.passport.verify import Verifier

_POLICY = click.option(
    "--policy",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The policy that names whose signatures count.  [default: `passport.policy`]",
)


@click.command()
@model_address
@_POLICY
@target_options
@json_option()
def verify(address: str, project: ProjectOptions, policy: Path | None, *, as_json: bool) -> None:
    """Verify the passport of a model version, by default of the newest one.

    Everything that can be looked up or computed again is: the digest of each file of the model, the image, the record of its tests,
    its provenance, the code snapshot, the metrics, the gate's decision, data and parameters, tags, and the signatures.

    \b
    ✓ recomputed: looked up again         ✓ signed: by one whom the policy names
    · stated: written down, not proved    ? unknown: the look-up failed
    ✗ refused: it does not hold

    Exit codes: 0, 2 invalid, 8 the service, 9 a claim is refused or the policy demands more.
    """
    if policy is not None:
        rules = policy_of(None, policy.absolute(), project.directory)
    else:
        rules = policy_of(load_passport(project.config, directory=project.directory), None, project.directory)
    verifier, model = _open(address, project, rules)
    found = verifier.verify(model)
    if as_json:
        print_result(found.facts())
    else:
        print_lines(found.lines())
    if faults := found.faults(rules.require if rules is not None else ()):
        raise PassportError(f"{found.model} is not verified:\n" + "\n".join(faults))


@click.command("passport")
@model_address
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write into; it is made if it does not exist.",
)
@target_options
def passport(address: str, project: ProjectOptions, output: Path) -> None:
    """Write the signed documents of a model version, for other verifiers.

    \b
    model.sig               for model_signing: the digests of the model's files
    passport.sigstore.json  for cosign and Sigstore's clients: the passport

    Nothing is verified. Exit codes: 0, 2 invalid, 8 the service, 9 there is no passport.
    """
    verifier, model = _open(address, project, None)
    output.mkdir(parents=True, exist_ok=True)
    for name in (SIGNATURE_FILE, PASSPORT_FILE):
        content = verifier.evidence.store.read(model.name, model.version, name)
        if not content:
            raise PassportError(
                f"{model.name}:{model.version} has no {name}.", hint="Sign models: `passport` in aml-train.yml."
            )
        (output / name).write_bytes(content)
        click.echo(str(output / name))


def _open(address: str, project: ProjectOptions, rules: PolicyConfig | None) -> tuple[Verifier, ModelView]:
    verifier = open_verifier(*place_of(project), policy=rules)
    return verifier, find_model(verifier.evidence.service, verifier.evidence.catalogue, address)
