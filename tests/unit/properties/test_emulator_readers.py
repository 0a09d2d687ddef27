"""What clients and jobs send to the local AzureML besides bodies of requests: filters, tokens, expressions, options, tasks."""

from __future__ import annotations

from functools import cache

from aml_emulator.api.errors import ServiceError
from aml_emulator.api.mlflow.search import (
    EXPERIMENTS,
    MODEL_VERSIONS,
    REGISTERED_MODELS,
    RUNS,
    Searchable,
    parse_filter,
    parse_order,
)
from aml_emulator.api.v1.runs import predicate
from aml_emulator.domain.assets import check_asset_name, check_asset_version
from aml_emulator.domain.clusters import seconds_of
from aml_emulator.domain.environments import conda_of
from aml_emulator.domain.errors import DomainError
from aml_emulator.domain.jobs.docker_args import docker_options
from aml_emulator.domain.locations import in_datastore, parse_location
from aml_emulator.executor.content import matcher, split_glob
from aml_emulator.executor.expressions import ExpressionError, expression_references, render
from aml_emulator.executor.layout import UnsafePathError, safe_relative, url_file_name
from aml_emulator.executor.task_spec import TaskError, parse_task
from aml_emulator.identity.federation import FederatedCredential, Federation
from aml_emulator.identity.tokens import TokenError, Tokens, decode_token
from aml_emulator.network.heads import BadHeadError
from aml_emulator.registry.acr import plain_target, read_request, read_scope
from tests.unit.emulator.parts import IDENTITY
from tests.unit.properties.foreign import foreign, refused

ITEM = Searchable(
    attributes={"run_id": "r", "status": "FINISHED", "start_time": 5.0, "name": "n", "creation_time": 1.0},
    tags={"a": "b", "x y": "c"},
    metrics={"loss": 0.5, "val/acc": 0.9},
    params={"lr": "0.1"},
)  # fmt: skip


@foreign(
    [
        *(
            "metrics.loss > 0.1",
            "tags.a = 'b' AND params.lr != '1'",
            "attributes.status IN ('FINISHED', \"RUNNING\")",
        ),
        *("metrics.`val/acc` >= 0.9", "tags.\"x y\" LIKE '%c'", "name ILIKE 'N%'", "attributes.start_time ASC"),
        *(
            "Status eq 'Running' and (tags/a eq 'b' or not (CreatedUtc gt 2026-01-01T00:00:00Z))",
            "ParentRunId eq null",
        ),
    ],
    [
        "metrics.",
        "tags.",
        " AND ",
        " IN (",
        " LIKE ",
        " >= ",
        " eq ",
        " and ",
        " or ",
        "not ",
        "null",
        "2026-01-01T00:00:00Z",
        "9999-12-31",
        "1e400",
        "\\'",
    ],
)
def test_filters(text: str) -> None:
    for grammar in (RUNS, EXPERIMENTS, REGISTERED_MODELS, MODEL_VERSIONS):
        for comparison in refused(lambda grammar=grammar: parse_filter(text, grammar), ServiceError) or ():
            assert isinstance(comparison.holds(ITEM), bool)
        refused(lambda grammar=grammar: parse_order([text, "metrics.loss DESC"], grammar), ServiceError)
    decide = refused(lambda: predicate(text), DomainError)
    for values in ({}, {"Status": "Running", "CreatedUtc": "2026-01-02T00:00:00Z"}):
        if decide is not None:
            assert isinstance(decide(lambda *names, values=values: values.get("/".join(map(str, names)))), bool)


NOW = 1_800_000_000.0


@cache
def tokens() -> Tokens:
    return Tokens(IDENTITY, clock=lambda: NOW)


ISSUED = (
    tokens().issue(audience="https://management.azure.com/"),
    tokens().issue_for_run("run-1"),
    tokens().issue_grant(client_id="c", seconds=60),
    tokens().issue_registry_refresh(),
)


@foreign(
    [*ISSUED, "e30.e30.AA", "e30.eyJpc3MiOiAieCIsICJzdWIiOiAieSIsICJhdWQiOiAieiIsICJleHAiOiA5ZTl9.AA"],
    ". e30 = eyJhbGciOiAibm9uZSJ9 W10 bnVsbA",
)
def test_tokens(text: str) -> None:
    """No token that was not issued is accepted."""
    known, federation = tokens(), Federation()
    for verify in (
        known.verify,
        known.verify_for_registry,
        known.verify_registry_refresh,
        known.verify_registry_access,
    ):
        assert refused(lambda verify=verify: verify(text), TokenError) is None or text.strip() in ISSUED
    assert refused(lambda: known.verify_grant(text, client_id="c"), TokenError) is None or text.strip() in ISSUED
    refused(lambda: known.check_assertion(text), TokenError)
    federation.add(FederatedCredential(issuer="x", subject="y", audience="z"))
    for signed in (True, False):
        refused(lambda signed=signed: federation.check(text, signed=signed), TokenError)
    refused(lambda: decode_token(text), TokenError, ValueError)


@foreign(
    [
        "--cpus 1 --env A=B --memory=1g --ulimit nofile=1:2 --shm-size 2g --init",
        "-e 'A B=c' --cap-add SYS_PTRACE --network host",
        "python train.py ${{inputs.a}} $[[--x ${{inputs.b}}]] ${{outputs.m}}",
        "version: v1.1.0\nsteps:\n  - build: -t $Registry/a:1 -f Dockerfile .\n    timeout: 5\n  - push: [$Registry/a:1]\n",
        "dependencies: [python=3.11, {pip: [numpy]}]\nwhen: 2026-01-01\n",
        "steps: [{build: .}]\nwhen: 2020-99-99\n",
        *("PT2H", "P1DT2H3M4.5S", "model-1", "val/acc", "2g"),
    ],
    [
        "--env ",
        "--privileged",
        "-v /:/x",
        "nofile=1:2",
        "${{inputs.",
        "}}",
        "$[[",
        "]]",
        "PT",
        "steps:",
        "build: ",
        "{{.Run.ID}}",
    ],
    tree=True,
)
def test_parts_of_jobs(text: str) -> None:
    options = refused(lambda: docker_options({"dockerArgs": text}), DomainError)
    assert options is None or options.host.get("Privileged", False) is False
    refused(lambda: docker_options({"dockerArgsList": text.split()}), DomainError)
    names = {one.name: "/x" for one in refused(lambda: expression_references(text), ExpressionError) or ()}
    refused(lambda: render(text, names, names), ExpressionError)
    assert (seconds_of(text) or 0) >= 0
    refused(lambda: parse_task(text), TaskError)
    for read in (
        check_asset_name,
        check_asset_version,
        conda_of,
    ):
        refused(lambda read=read: read(text), DomainError)


@foreign(
    [
        "azureml://datastores/w/paths/a/b*",
        "wasbs://c@acc.blob.core.windows.net/p",
        "aml://asset/x",
        "/v2/r/manifests/latest?n=1",
        "repository:a/b:pull,push",
        "a/b.txt",
    ],
    "azureml: datastores/ /paths/ .. // %2F repository: :pull , [a-z] **",
)
def test_places(text: str) -> None:
    """No path leads out of its folder, and a scope means the same if it is written again."""
    refused(lambda: parse_location(text), DomainError)
    in_datastore(text)
    safe = refused(lambda: safe_relative(text), UnsafePathError)
    assert safe is None or (not safe.startswith("/") and ".." not in safe.split("/"))
    refused(lambda: url_file_name(text), ValueError)
    line = text.replace(" ", "%20").encode("ascii", "ignore").decode()
    refused(lambda: read_request("GET", line), BadHeadError)
    refused(lambda: plain_target(line), BadHeadError)
    scope = read_scope(text)
    assert scope is None or read_scope(scope.text) == scope
    folder, inside = split_glob(text[:200])
    assert isinstance(matcher(inside)("data/x"), bool)
    assert inside is not None or folder == text[:200]
