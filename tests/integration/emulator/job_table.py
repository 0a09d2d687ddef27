"""Command jobs after the public grammar: what each prints or how it fails. The jobs are AzureML's YAML.

https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command. In their texts stand ``@WEB`` (a web server's address),
``@STORE`` (the beginning of the default datastore's paths), ``@LONG`` (the same in its long form) and ``@JOB:row`` (the name of the job
of an earlier row). A job without environment or compute gets the table's own. What is refused: tests/unit/emulator/domain/test_check.py.
"""

from __future__ import annotations

from dataclasses import dataclass

IMAGE = "python:3.11-slim-bookworm"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One job.

    Attributes:
        name: also the job's name.
        job: its YAML.
        prints: lines of its log, all of them and in this order; None where *contains* says enough.
        contains: what its log, or its error, holds.
        status: how it ends.
        later: whether it is submitted when the other jobs have ended.
    """

    name: str
    job: str
    prints: tuple[str, ...] | None = None
    contains: tuple[str, ...] = ()
    status: str = "Completed"
    later: bool = False


def ends(name: str, job: str, *prints: str, later: bool = False) -> Row:
    """Return a job that completes and prints these lines."""
    return Row(name=name, job=job, prints=prints, later=later)


def fails(name: str, job: str, *contains: str, status: str = "Failed") -> Row:
    """Return a job that is taken and does not complete; its error holds these words."""
    return Row(name=name, job=job, contains=contains, status=status)


def takes(name: str, kind: str, path: str, *prints: str, how: str = "cat ${{inputs.d}}", later: bool = False) -> Row:
    """Return a job that looks at an input."""
    return ends(name, f"command: {how}\ninputs: {{d: {{type: {kind}, path: '{path}'}}}}", *prints, later=later)


def makes(name: str, how: str, output: str, *prints: str) -> Row:
    """Return a job that writes an output."""
    return ends(name, f"command: '{how}'\noutputs: {{o: {{{output}}}}}", *prints)


_VALUES = (
    ("fraction_with_zero", "0.10", "[0.1]"),
    ("exponent", "1.5e-3", "[0.0015]"),
    ("boolean", "true", "[True]"),
    ("text_true", "'true'", "[true]"),
    ("text_number", "'1.10'", "[1.10]"),
    ("words", "one  two", "[one  two]"),
    ("empty", "''", "[]"),
    ("single_quote", '"it\'s"', "[it's]"),
    ("unicode", "größe 大きさ 🚀", "[größe 大きさ 🚀]"),
    ("lines", '"one\\ntwo"', "[one", "two]"),
    ("shell", "'$((6 * 7)) `echo run`'", "[42 run]"),
    ("value", "{value: 7}", "[7]"),
)
"""Literals as YAML, and what a command prints of each in double quotes and in brackets."""

_LITERALS = ends(
    "literals",
    "command: |\n"
    + "".join(f'  echo "[${{{{inputs.{name}}}}}]"\n' for name, *_ in _VALUES)
    + "inputs:\n"
    + "".join(f"  {name}: {value}\n" for name, value, *_ in _VALUES),
    *(line for _, _, *lines in _VALUES for line in lines),
)

TABLE = (
    _LITERALS,
    ends(
        "optional",
        "command: echo $[[--rate ${{inputs.rate}}]] $[[--no ${{inputs.no}}]]\ninputs: {rate: 1}",
        "--rate 1",
    ),
    ends("lines", "command: |\n  set -euo pipefail\n  cat <<END\n  total $((1 + 2))\n  END\n", "total 3"),
    ends(
        "variables",
        'command: printenv A B\nenvironment_variables: {A: 0.5, B: "two words $HOME"}',
        "0.5",
        "two words $HOME",
    ),
    ends("code-file", "command: python train.py\ncode: src/train.py", "trained"),
    takes("file-local", "uri_file", "data/a.csv", "a,1"),
    takes("table-local", "mltable", "table", "paths: [{file: ./rows.csv}]", how="cat ${{inputs.d}}/MLTable"),
    takes("file-asset-latest", "uri_file", "azureml:table-file@latest", "second"),
    takes("folder-asset", "uri_folder", "azureml:table-folder:1", "a.csv", "b.txt", "deep", how="ls ${{inputs.d}}"),
    takes("asset-on-the-web", "uri_file", "azureml:table-web:1", "from the web"),
    takes("web", "uri_file", "@WEB/file.txt?x=1", "from the web"),
    takes("folder-long-address", "uri_folder", "@LONG/deep/", "c.csv", how="ls ${{inputs.d}}"),
    takes(
        "wildcard",
        "uri_folder",
        "@STORE/**/*.csv",
        "a.csv",
        "deep/c.csv",
        how="cd ${{inputs.d}}; find -type f | cut -c3- | sort",
    ),
    takes("path-variable", "uri_file", "@STORE/a.csv", "a,1", how="cat $AZURE_ML_INPUT_d"),
    takes("model-latest", "custom_model", "azureml:table-model@latest", "weights.txt", how="ls ${{inputs.d}}"),
    takes(
        "of-a-job",
        "uri_folder",
        "azureml://jobs/@JOB:output/outputs/o",
        "made.txt",
        how="ls ${{inputs.d}}",
        later=True,
    ),
    takes(
        "artifact",
        "uri_file",
        "azureml://jobs/@JOB:artifacts/outputs/artifacts/paths/outputs/note",
        "noted",
        later=True,
    ),
    ends(
        "direct",
        "command: echo ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: '@STORE/deep', mode: direct}}",
        "@LONG/deep",
    ),
    fails(
        "file-missing",
        "command: ls\ninputs: {d: {type: uri_file, path: '@STORE/none'}}",
        "The input 'd' (@STORE/none) cannot be read",
    ),
    makes("output", "echo made > ${{outputs.o}}/made.txt", "type: uri_folder"),
    makes("output-file", "echo made > ${{outputs.o}}", "type: uri_file, mode: upload"),
    makes(
        "placed",
        "echo made > ${{outputs.o}}/made.txt",
        "type: uri_folder, path: '@STORE/placed/${{name}}/${{output_name}}'",
    ),
    makes(
        "output-direct",
        "echo ${{outputs.o}}",
        "type: uri_folder, mode: direct, path: '@STORE/direct'",
        "@LONG/direct",
    ),
    makes("registers", "echo 1 > $AZURE_ML_OUTPUT_o/made.txt", "type: uri_folder, name: made-by-job"),
    makes("registers-version", "echo version > ${{outputs.o}}", "type: uri_file, name: made-by-version"),
    makes("registers-model", "echo weights > ${{outputs.o}}/weights.txt", "type: custom_model, name: model-by-job"),
    ends("services", "command: echo alone\nservices: {s: {type: ssh}, j: {type: jupyter_lab}}", "alone"),
    ends("artifacts", "command: echo noted > outputs/note"),
    takes("uses-placed", "uri_file", "@STORE/placed/@JOB:placed/o/made.txt", "made", later=True),
    takes(
        "uses-registered", "uri_folder", "azureml:made-by-job@latest", "made.txt", how="ls ${{inputs.d}}", later=True
    ),
    takes("uses-version", "uri_file", "azureml:made-by-version:1", "version", later=True),
    takes("uses-model", "custom_model", "azureml:model-by-job:1", "weights.txt", how="ls ${{inputs.d}}", later=True),
    fails(
        "registers-nothing",
        "command: 'true'\noutputs: {o: {type: uri_file, name: never}}",
        "cannot be registered as 'never'",
    ),
    ends("shared-memory", "command: df -k /dev/shm | awk 'NR==2 {print $2}'\nresources: {shm_size: 256m}", "262144"),
    ends(
        "docker-arguments",
        "command: hostname; echo $A\nresources: {docker_args: --hostname node7 --env A=b -m 256m}",
        "node7",
        "b",
    ),
    ends(
        "pytorch",
        "command: echo $RANK of $WORLD_SIZE at $MASTER_ADDR\ndistribution: {type: pytorch}",
        "0 of 1 at 127.0.0.1",
    ),
    Row(
        name="pytorch-nodes",
        job="command: echo $RANK of $WORLD_SIZE on $NODE_RANK\nresources: {instance_count: 2}\n"
        "distribution: {type: pytorch, process_count_per_instance: 2}",
        contains=("0 of 4 on 0", "1 of 4 on 0", "2 of 4 on 1", "3 of 4 on 1"),
    ),
    ends(
        "tensorflow",
        "command: echo $TF_CONFIG\ndistribution: {type: tensorflow, worker_count: 1}",
        '{"cluster": {"worker": ["127.0.0.1:2222"]}, "task": {"type": "worker", "index": 0}, "environment": "cloud"}',
    ),
    ends(
        "identity-managed",
        "command: echo $DEFAULT_IDENTITY_CLIENT_ID\nidentity: {type: managed, client_id: '1-2'}",
        "1-2",
    ),
    ends("spot", "command: 'true'\nqueue_settings: {job_tier: spot, priority: high}"),
    ends("locations", "command: 'true'\nresources: {locations: [westeurope], instance_type: STANDARD_D2_V2}"),
    fails("limit", "command: sleep 36000\nlimits: {timeout: 1}", "limits.timeout of 1 seconds", status="Canceled"),
    ends("child", "command: 'true'\nparent_job_name: '@JOB:output'", later=True),
    ends("environment-latest", "command: 'true'\nenvironment: azureml:table@latest"),
    ends("environment-file", "command: 'true'\nenvironment: file:environment.yml"),
    ends(
        "environment-build",
        "command: echo $BUILT\nenvironment: {build: {path: context, dockerfile_path: docker/Other}}",
        "otherwise",
    ),
    fails(
        "build-fails",
        "command: 'true'\nenvironment: {build: {path: context, dockerfile_path: docker/Broken}}",
        "exit 7",
    ),
    fails(
        "no-conda",
        f"command: 'true'\nenvironment: {{image: '{IMAGE}', conda_file: conda.yml}}",
        "has no conda, mamba or micromamba",
    ),
    ends("curated", "command: 'true'\nenvironment: azureml://registries/azureml/environments/played-1.5/versions/1"),
)
