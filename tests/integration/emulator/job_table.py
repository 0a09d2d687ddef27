"""Command jobs of every shape, after the public grammar: what each must print, make, or be refused for.

https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command. The jobs are AzureML's YAML. In their texts
stand ``@COMPUTE``, ``@WS`` (the workspace's ARM id), ``@WEB`` (a web server's address), ``@STORE`` (the beginning of the
default datastore's paths) and ``@JOB:row`` (the name of the job of an earlier row of the same client).
A job without environment or compute gets the table's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

IMAGE = "python:3.11-slim-bookworm"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One job.

    Attributes:
        name: also the job's name, with the client's in front.
        job: its YAML.
        prints: lines of its log, all of them and in this order; None where *contains* says enough.
        contains: what its log, or its error, holds.
        status: how it ends.
        refused: what the refusal says, in whose message it is found; None for a job that is taken.
        refused_by_us: the same of aml-train, where it refuses earlier and in other words, or what azure-ai-ml takes.
        later: whether it is submitted when the other jobs have ended.
        lost: keys of the job that azure-ai-ml does not hand on or does not read back.
    """

    name: str
    job: str
    prints: tuple[str, ...] | None = None
    contains: tuple[str, ...] = ()
    status: str = "Completed"
    refused: str | None = None
    refused_by_us: str | None = None
    later: bool = False
    lost: tuple[str, ...] = ()


def ends(name: str, job: str, *prints: str, later: bool = False, lost: tuple[str, ...] = ()) -> Row:
    """Return a job that completes and prints these lines."""
    return Row(name=name, job=job, prints=prints, later=later, lost=lost)


def fails(name: str, job: str, *contains: str, status: str = "Failed") -> Row:
    """Return a job that is taken and does not complete; its error holds these words."""
    return Row(name=name, job=job, contains=contains, status=status)


def refused(name: str, job: str, why: str, ours: str | None = None) -> Row:
    """Return a job that is not taken; *why* is in the message."""
    return Row(name=name, job=job, refused=why, refused_by_us=ours)


_VALUES = (
    ("integer", "5", "[5]"),
    ("negative", "-3", "[-3]"),
    ("fraction", "0.1", "[0.1]"),
    ("fraction_with_zero", "0.10", "[0.1]"),
    ("exponent", "1.5e-3", "[0.0015]"),
    ("small", "0.00001", "[1e-05]"),
    ("boolean_true", "true", "[True]"),
    ("boolean_false", "false", "[False]"),
    ("text_true", "'true'", "[true]"),
    ("text_number", "'1.10'", "[1.10]"),
    ("words", "one  two", "[one  two]"),
    ("empty", "''", "[]"),
    ("single_quote", '"it\'s"', "[it's]"),
    ("double_quotes", "'say \"hi\" twice'", "[say hi twice]"),
    ("unicode", "größe 大きさ 🚀", "[größe 大きさ 🚀]"),
    ("lines", '"one\\ntwo"', "[one", "two]"),
    ("shell", "'$((6 * 7)) `echo run`'", "[42 run]"),
    ("value", "{value: 7}", "[7]"),
)
"""Literals as YAML, and what a command prints of each in double quotes and in brackets."""


def _literals() -> Row:
    """Return a job with all of them."""
    command = "".join(f'  echo "[${{{{inputs.{name}}}}}]"\n' for name, *_ in _VALUES)
    inputs = "".join(f"  {name}: {value}\n" for name, value, *_ in _VALUES)
    prints = [line for _, _, *lines in _VALUES for line in lines]
    return ends("literals", f"command: |\n{command}inputs:\n{inputs}", *prints)


LITERALS = (
    _literals(),
    replace(
        ends(
            "literal-long", "command: echo ${{inputs.x}}\ninputs: {x: 12345678901234567890}", "12345678901234567890"
        ),
        refused_by_us="beyond 64 bits",
    ),
    ends(
        "literal-unquoted",
        'command: for word in ${{inputs.x}}; do echo "[$word]"; done\ninputs: {x: one  two}',
        "[one]",
        "[two]",
    ),
    ends(
        "optional-given",
        "command: echo run $[[--rate ${{inputs.rate}}]] end\ninputs: {rate: 0.5}",
        "run --rate 0.5 end",
    ),
    ends("optional-absent", "command: echo run $[[--rate ${{inputs.rate}}]] end\ninputs: {other: 1}", "run end"),
    ends("twice", "command: echo ${{inputs.a}} ${{inputs.b}} ${{inputs.a}}\ninputs: {a: 1, b: two}", "1 two 1"),
    ends("spaces-in-braces", "command: echo ${{ inputs.a }}\ninputs: {a: 1}", "1"),
)

COMMANDS = (
    ends(
        "several-lines",
        """
command: |
  set -euo pipefail
  total=0
  for number in 1 2 3; do
    total=$((total + number))
  done
  cat <<END
  total $total
  END
  echo "to stderr" >&2
""",
        "total 6",
        "to stderr",
    ),
    ends("bash", "command: '[[ abc == a* ]] && echo \"${BASH_VERSION:+bash}\"'", "bash"),
    ends("folder", "command: 'pwd | cut -d/ -f1-5; ls; id -u'", "/mnt/azureml/cr/j", "logs", "outputs", "0"),
    fails("exit-code", "command: echo before; exit 3", "exited with status code 3", "before"),
    fails("not-found", "command: no-such-program --x", "status code 127", "no-such-program"),
    ends(
        "variables",
        """
command: printenv A B C D E F
environment_variables: {A: text, B: 5, C: "true", D: 0.5, E: "two words $HOME", F: "größe"}
""",
        "text",
        "5",
        "true",
        "0.5",
        "two words $HOME",
        "größe",
    ),
    replace(
        ends("variable-true", "command: echo $A\nenvironment_variables: {A: true}", "True"),
        refused_by_us="YAML reads it as a boolean",
    ),
    ends("variable-of-lines", 'command: echo "$A"\nenvironment_variables: {A: "one\\ntwo"}', "one", "two"),
    ends(
        "run-id",
        "command: 'echo ${AZUREML_RUN_ID:+set} ${MLFLOW_RUN_ID:+set} ${AZUREML_RUN_TOKEN:+set}'",
        "set set set",
    ),
    ends("code-folder", "command: python train.py; ls sub\ncode: src", "trained", "helper.py"),
    ends("code-file", "command: python train.py\ncode: src/train.py", "trained"),
)

INPUTS = (
    ends("file-local", "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: data/a.csv}}", "a,1"),
    ends(
        "folder-local",
        "command: ls ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: data}}",
        "a.csv",
        "b.txt",
        "deep",
    ),
    ends(
        "table-local",
        "command: cat ${{inputs.d}}/MLTable\ninputs: {d: {type: mltable, path: table}}",
        "paths: [{file: ./rows.csv}]",
    ),
    ends(
        "file-asset",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml:table-file:1'}}",
        "first",
    ),
    ends(
        "file-asset-latest",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml:table-file@latest'}}",
        "second",
    ),
    ends(
        "file-asset-arm",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml:@WS/data/table-file/versions/1'}}",
        "first",
    ),
    ends(
        "folder-asset",
        "command: ls ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: 'azureml:table-folder:1'}}",
        "a.csv",
        "b.txt",
        "deep",
    ),
    ends(
        "table-asset",
        "command: ls ${{inputs.d}}\ninputs: {d: {type: mltable, path: 'azureml:table-table:1'}}",
        "MLTable",
        "rows.csv",
    ),
    ends(
        "asset-on-the-web",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml:table-web:1'}}",
        "from the web",
    ),
    ends("file-datastore", "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: '@STORE/a.csv'}}", "a,1"),
    ends(
        "folder-datastore",
        "command: ls ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: '@STORE/deep'}}",
        "c.csv",
    ),
    ends(
        "folder-long-address",
        "command: ls ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: '@LONG/deep/'}}",
        "c.csv",
    ),
    ends(
        "wildcard",
        "command: cd ${{inputs.d}}; find -type f\ninputs: {d: {type: uri_folder, path: '@STORE/*.csv'}}",
        "./a.csv",
    ),
    ends(
        "wildcard-of-folders",
        "command: cd ${{inputs.d}}; find -type f | sort\ninputs: {d: {type: uri_folder, path: '@STORE/**/*.csv'}}",
        "./a.csv",
        "./deep/c.csv",
    ),
    ends(
        "web", "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: '@WEB/file.txt?x=1'}}", "from the web"
    ),
    ends(
        "download",
        "command: cat ${{inputs.d}}/c.csv\ninputs: {d: {type: uri_folder, path: '@STORE/deep', mode: download}}",
        "c,3",
    ),
    ends(
        "mount",
        "command: cat ${{inputs.d}}/c.csv\ninputs: {d: {type: uri_folder, path: '@STORE/deep', mode: ro_mount}}",
        "c,3",
    ),
    ends(
        "direct",
        "command: echo ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: '@STORE/deep', mode: direct}}",
        "@LONG/deep",
    ),
    ends(
        "direct-web",
        "command: echo ${{inputs.d}}\ninputs: {d: {type: uri_file, path: '@WEB/any', mode: direct}}",
        "@WEB/any",
    ),
    ends(
        "direct-asset",
        "command: echo ${{inputs.d}} | grep -o 'datastores/.*/paths/'\ninputs: {d: {type: uri_file, path: 'azureml:table-file:1', mode: direct}}",
        "datastores/workspaceblobstore/paths/",
    ),
    ends(
        "model",
        "command: cat ${{inputs.m}}/weights.txt\ninputs: {m: {type: custom_model, path: 'azureml:table-model:1'}}",
        "weights",
    ),
    ends(
        "model-latest",
        "command: ls ${{inputs.m}}\ninputs: {m: {type: custom_model, path: 'azureml:table-model@latest', mode: download}}",
        "weights.txt",
    ),
    ends("model-local", "command: ls ${{inputs.m}}\ninputs: {m: {type: mlflow_model, path: model}}", "weights.txt"),
    ends(
        "model-triton", "command: ls ${{inputs.m}}\ninputs: {m: {type: triton_model, path: '@STORE/deep'}}", "c.csv"
    ),
    ends(
        "path-variable", "command: cat $AZURE_ML_INPUT_d\ninputs: {d: {type: uri_file, path: '@STORE/a.csv'}}", "a,1"
    ),
    ends(
        "output-of-a-job",
        "command: cat ${{inputs.d}}/made.txt\ninputs: {d: {type: uri_folder, path: 'azureml://jobs/@JOB:output/outputs/o'}}",
        "made",
        later=True,
    ),
    ends(
        "artifacts-of-a-job",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml://jobs/@JOB:artifacts/outputs/artifacts/paths/outputs/note.txt'}}",
        "noted",
        later=True,
    ),
    fails(
        "file-missing",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: '@STORE/none.csv'}}",
        "The input 'd' (@STORE/none.csv) cannot be read",
    ),
    fails(
        "folder-for-a-file",
        "command: ls\ninputs: {d: {type: uri_file, path: '@STORE/deep'}}",
        "The input 'd'",
        "a uri_file input needs a file",
    ),
    fails(
        "wildcard-of-nothing",
        "command: ls\ninputs: {d: {type: uri_folder, path: '@STORE/*.none'}}",
        "The input 'd' (@STORE/*.none) cannot be read",
    ),
    refused(
        "web-missing",
        "command: ls\ninputs: {d: {type: uri_file, path: '@WEB/missing'}}",
        "/missing: the server answers 404",
    ),
    refused(
        "table-evaluated",
        "command: ls ${{inputs.d}}\ninputs: {d: {type: mltable, path: table, mode: eval_mount}}",
        "mode 'EvalMount' of input 'd'",
    ),
    refused(
        "folder-on-the-web", "command: ls\ninputs: {d: {type: uri_folder, path: '@WEB/file.txt'}}", "use uri_file"
    ),
    refused("asset-missing", "command: ls\ninputs: {d: {type: uri_file, path: 'azureml:nothing:9'}}", "nothing"),
    refused(
        "datastore-missing",
        "command: ls\ninputs: {d: {type: uri_file, path: 'azureml://datastores/nowhere/paths/x'}}",
        "Could not find datastore: nowhere.",
    ),
    refused(
        "real-cloud",
        "command: ls\ninputs: {d: {type: uri_file, path: 'https://other.blob.core.windows.net/c/x'}}",
        "The input 'd' cannot be read from https://other.blob.core.windows.net/c/x",
    ),
)

OUTPUTS = (
    ends("output", "command: echo made > ${{outputs.o}}/made.txt\noutputs: {o: {type: uri_folder}}"),
    ends("output-bare", "command: touch ${{outputs.o}}/x\noutputs: {o: }"),
    ends("output-file", "command: echo made > ${{outputs.o}}\noutputs: {o: {type: uri_file, mode: upload}}"),
    ends(
        "output-table",
        "command: 'echo \"paths: []\" > ${{outputs.o}}/MLTable'\noutputs: {o: {type: mltable, mode: rw_mount}}",
    ),
    ends(
        "output-placed",
        "command: echo made > ${{outputs.o}}/made.txt\noutputs: {o: {type: uri_folder, path: 'azureml://datastores/workspaceblobstore/paths/placed/${{name}}/${{output_name}}'}}",
    ),
    ends(
        "output-direct",
        "command: echo ${{outputs.o}}\noutputs: {o: {type: uri_folder, mode: direct, path: '@STORE/direct'}}",
        "@LONG/direct",
    ),
    ends("output-variable", "command: echo made > $AZURE_ML_OUTPUT_o/made.txt\noutputs: {o: {type: uri_folder}}"),
    ends("artifacts", "command: echo noted > outputs/note.txt"),
    ends("outputs", "command: touch ${{outputs.a}}/x ${{outputs.b}}\noutputs: {a: {}, b: {type: uri_file}}"),
    ends(
        "registers",
        "command: echo registered > ${{outputs.o}}/made.txt\noutputs: {o: {type: uri_folder, name: made-by-@CLIENT}}",
    ),
    ends(
        "registers-version",
        "command: echo version > ${{outputs.o}}\noutputs: {o: {type: uri_file, name: versioned-by-@CLIENT, version: 7}}",
        lost=("version",),
    ),
    ends(
        "registers-model",
        "command: echo weights > ${{outputs.o}}/weights.txt\noutputs: {o: {type: custom_model, name: model-by-@CLIENT}}",
    ),
    ends(
        "uses-registered",
        "command: cat ${{inputs.d}}/made.txt\ninputs: {d: {type: uri_folder, path: 'azureml:made-by-@CLIENT@latest'}}",
        "registered",
        later=True,
    ),
    ends(
        "uses-registered-version",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml:versioned-by-@CLIENT:7'}}",
        "version",
        later=True,
    ),
    ends(
        "uses-registered-model",
        "command: cat ${{inputs.d}}/weights.txt\ninputs: {d: {type: custom_model, path: 'azureml:model-by-@CLIENT:1'}}",
        "weights",
        later=True,
    ),
    ends(
        "uses-placed",
        "command: cat ${{inputs.d}}\ninputs: {d: {type: uri_file, path: 'azureml://datastores/workspaceblobstore/paths/placed/@JOB:output-placed/o/made.txt'}}",
        "made",
        later=True,
    ),
    fails(
        "registers-nothing",
        "command: 'true'\noutputs: {o: {type: uri_file, name: never}}",
        "The output 'o' was not written, and cannot be registered as 'never'",
    ),
    refused(
        "output-elsewhere",
        "command: 'true'\noutputs: {o: {type: uri_folder, path: 'azureml:table-folder:1'}}",
        "path in a datastore",
    ),
    refused(
        "output-expression",
        "command: 'true'\noutputs: {o: {type: uri_folder, path: '@STORE/${{other}}'}}",
        "is not known",
    ),
    refused(
        "registers-again",
        "command: 'true'\noutputs: {o: {type: uri_file, name: table-file, version: 1}}",
        "'table-file:1', which exists already",
    ),
)

SETTINGS = (
    ends(
        "described",
        """
command: 'true'
display_name: Größe, 2nd try
description: Free text, with a # and a colon after it.
experiment_name: table-of-jobs
tags: {owner: me, version: "1.10", empty: ""}
properties: {a: b}
""",
    ),
    ends("shared-memory", "command: df -k /dev/shm | awk 'NR==2 {print $2}'\nresources: {shm_size: 256m}", "262144"),
    ends("shared-memory-default", "command: df -k /dev/shm | awk 'NR==2 {print $2}'", "2097152"),
    ends("ulimit", "command: ulimit -n\nresources: {docker_args: --ulimit nofile=1234}", "1234"),
    ends(
        "docker-arguments",
        "command: hostname; echo $A; cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes\nresources: {docker_args: --hostname node7 --env A=b -m 256m}",
        "node7",
        "b",
        "268435456",
    ),
    ends(
        "docker-argument-list",
        "command: df -k /scratch | awk 'NR==2 {print $2}'\nresources: {docker_args: [--tmpfs, '/scratch:size=1m']}",
        "1024",
        lost=("docker_args",),
    ),
    ends(
        "pytorch",
        "command: echo $RANK of $WORLD_SIZE at $MASTER_ADDR\ndistribution: {type: pytorch, process_count_per_instance: 1}",
        "0 of 1 at 127.0.0.1",
    ),
    Row(
        name="pytorch-processes",
        job="command: echo $RANK $LOCAL_RANK of $WORLD_SIZE\ndistribution: {type: pytorch, process_count_per_instance: 3}",
        contains=("0 0 of 3", "1 1 of 3", "2 2 of 3"),
    ),
    fails(
        "pytorch-one-fails",
        "command: '[ $RANK != 1 ] || exit 9; sleep 36000'\ndistribution: {type: pytorch, process_count_per_instance: 2}",
        "status code 9",
    ),
    fails(
        "mpi-without-mpirun",
        "command: 'true'\ndistribution: {type: mpi, process_count_per_instance: 2}",
        "its image has no mpirun",
    ),
    ends(
        "tensorflow",
        "command: echo $TF_CONFIG\ndistribution: {type: tensorflow, worker_count: 1}",
        '{"cluster": {"worker": ["127.0.0.1:2222"]}, "task": {"type": "worker", "index": 0}, "environment": "cloud"}',
    ),
    Row(
        name="pytorch-nodes",
        job=(
            "command: echo $RANK of $WORLD_SIZE on $NODE_RANK\nresources: {instance_count: 2}\n"
            "distribution: {type: pytorch, process_count_per_instance: 2}"
        ),
        contains=("0 of 4 on 0", "1 of 4 on 0", "2 of 4 on 1", "3 of 4 on 1"),
    ),
    ends("identity-token", "command: 'true'\nidentity: {type: aml_token}"),
    ends(
        "identity-managed",
        "command: echo $DEFAULT_IDENTITY_CLIENT_ID\nidentity: {type: managed, client_id: 11111111-2222-3333-4444-555555555555}",
        "11111111-2222-3333-4444-555555555555",
    ),
    ends("identity-user", "command: 'true'\nidentity: {type: user_identity}"),
    ends("spot", "command: 'true'\nqueue_settings: {job_tier: spot, priority: high}", lost=("priority",)),
    ends("premium", "command: 'true'\nqueue_settings: {job_tier: premium, priority: low}", lost=("priority",)),
    ends("instance", "command: 'true'\nresources: {instance_count: 1, instance_type: STANDARD_D2_V2}"),
    ends("limit", "command: 'true'\nlimits: {timeout: 3600}"),
    fails(
        "limit-reached",
        "command: sleep 36000\nlimits: {timeout: 1}",
        "limits.timeout of 1 seconds",
        status="Canceled",
    ),
    ends("child", "command: 'true'\nparent_job_name: '@JOB:output'", later=True, lost=("parent_job_name",)),
    refused("parent-missing", "command: 'true'\nparent_job_name: nobody", "parentJobName: there is no job 'nobody'"),
    refused(
        "ssh", "command: 'true'\nservices: {shell: {type: ssh, ssh_public_keys: key}}", "services.shell of type 'SSH'"
    ),
    refused("jupyter", "command: 'true'\nservices: {lab: {type: jupyter_lab}}", "services.lab of type 'JupyterLab'"),
    refused(
        "tensorboard",
        "command: 'true'\nservices: {board: {type: tensor_board, log_dir: logs}}",
        "services.board of type 'TensorBoard'",
    ),
    refused(
        "vscode", "command: 'true'\nservices: {code: {type: vs_code, nodes: all}}", "services.code of type 'VSCode'"
    ),
    refused("own-service", "command: 'true'\nservices: {own: {type: Custom, port: 8080}}", "services.own"),
    refused(
        "instances",
        "command: 'true'\nresources: {instance_count: 2}",
        "instanceCount 2 of a job without a distribution",
    ),
    refused(
        "too-many-instances",
        "command: 'true'\nresources: {instance_count: 900}\ndistribution: {type: pytorch}",
        "exceeds the maximum node count",
    ),
    refused("elastic", "command: 'true'\nresources: {max_instance_count: 4}", "resources.maxInstanceCount 4"),
    ends("locations", "command: 'true'\nresources: {locations: [westeurope]}"),
    refused(
        "resource-properties",
        "command: 'true'\nresources: {properties: {singularity: {x: 1}}}",
        "resources.properties.AISuperComputer",
    ),
    refused("privileged", "command: 'true'\nresources: {docker_args: --privileged}", "docker_args: '--privileged'"),
    refused("volume", "command: 'true'\nresources: {docker_args: '-v /:/host'}", "docker_args: '-v'"),
    refused("ray", "command: 'true'\ndistribution: {type: ray, port: 6379}", "distribution of type 'Ray'"),
    refused("compute-missing", "command: 'true'\ncompute: azureml:nowhere", "nowhere"),
    refused("search-space", "command: echo ${{search_space.rate}}", "search_space", ours="search_space"),
    refused("input-missing", "command: echo ${{inputs.rate}}\ninputs: {other: 1}", "rate"),
)

ENVIRONMENTS = (
    ends("environment-version", "command: 'true'\nenvironment: azureml:table:1"),
    ends("environment-latest", "command: 'true'\nenvironment: azureml:table@latest"),
    ends("environment-arm", "command: 'true'\nenvironment: azureml:@WS/environments/table/versions/1"),
    ends("environment-image", f"command: 'true'\nenvironment: {{image: '{IMAGE}'}}"),
    ends(
        "environment-named",
        f"command: 'true'\nenvironment: {{image: '{IMAGE}', name: table-inline, version: 3, tags: {{a: b}}}}",
    ),
    ends("environment-file", "command: 'true'\nenvironment: file:environment.yml"),
    fails(
        "environment-image-missing",
        "command: 'true'\nenvironment: {image: 'no.such.host.invalid/image:1'}",
        "The image no.such.host.invalid/image:1 cannot be used",
    ),
    refused("environment-missing", "command: 'true'\nenvironment: azureml:nothing:1", "nothing"),
)

BUILT_ENVIRONMENTS = (
    ends("environment-build", "command: echo $BUILT\nenvironment: {build: {path: context}}", "yes"),
    ends(
        "environment-build-of-a-file",
        "command: echo $BUILT\nenvironment: {build: {path: context, dockerfile_path: docker/Other}}",
        "otherwise",
    ),
    ends("environment-build-named", "command: echo $BUILT\nenvironment: azureml:table-built:1", "yes"),
    fails(
        "environment-build-fails",
        "command: 'true'\nenvironment: {build: {path: context, dockerfile_path: docker/Broken}}",
        "exit 7",
    ),
    fails(
        "environment-conda-without-conda",
        f"command: 'true'\nenvironment: {{image: '{IMAGE}', conda_file: conda.yml}}",
        "has no conda, mamba or micromamba",
    ),
    ends(
        "environment-curated",
        "command: 'true'\nenvironment: azureml://registries/azureml/environments/played-1.5/versions/1",
    ),
    refused(
        "environment-curated-unknown",
        "command: 'true'\nenvironment: azureml://registries/azureml/environments/sklearn-1.5/versions/1",
        "without an image of this machine to play it",
    ),
)
"""Environments that have to be built, or that belong to a registry."""

TABLE = (*LITERALS, *COMMANDS, *INPUTS, *OUTPUTS, *SETTINGS, *ENVIRONMENTS, *BUILT_ENVIRONMENTS)
