"""Good configurations → values; finding the files; targets; overrides."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aml_train.config.job.script import files_not_kept, logged_metrics
from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.config.sections.image_packages import PipConfig
from aml_train.config.sections.targets import TargetConfig
from aml_train.config.sections.watch import CostConfig, Price, RetryConfig, WatchConfig
from aml_train.core.errors import InvalidError
from aml_train.core.references import ImageRef

JOB = "job: {command: 'echo ${{inputs.epochs}}', inputs: {epochs: 5}, environment: 'azureml:e:1'}\n"
WORKSPACE = "subscription-id: 00000000-0000-0000-0000-000000000000, resource-group: g, workspace: w1"
FULL = """\
job: jobs/train.yml
image:
  base: nvcr.io/nvidia/pytorch:25.09-py3
  apt: [libgl1, libx=1.0-1]
  pip: {requirements: requirements.txt, packages: ["numpy>=2", "a[b]==1.0; python_version >= '3.11'"]}
  azureml-mlflow: true
  azureml-defaults: "1.62.0"
  env: {A: text, B: 5}
  repository: team/digits
  platform: linux/amd64
tests: {command: pytest -q tests, files: [src, "*.py"], env: {C: "1"}, timeout: 1h30m, network: yes, junit: out/j.xml}
gate:
  val/top 1.acc: [">= 0.95", "min > 0.1"]
  loss: "< 0.2"
model: {name: digits, output: model, type: mlflow_model, description: text, tags: {a: b}}
watch: {timeout: 2d, queue-timeout: 90}
target: azure
targets:
  local: {compute: cpu}
  azure: {subscription-id: 00000000-0000-0000-0000-000000000000, resource-group: my.group, workspace: my-ws,
          registry: my.azurecr.io, push-registry: 'localhost:5000', compute: gpu}
"""


def write(folder: Path, text: str, name: str = "aml-train.yml") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def load(folder: Path, **options: Any) -> Config:
    return load_config(options.pop("path", None), directory=folder, **options)


def complaint(folder: Path, **options: Any) -> str:
    with pytest.raises(InvalidError) as caught:
        load(folder, **options)
    return str(caught.value)


def test_every_key(tmp_path: Path) -> None:
    write(tmp_path, FULL)
    write(tmp_path, "", "requirements.txt")
    job = "command: x\ncode: ../src\nenvironment: azureml:e:1\noutputs: {model: }\n"
    file = write(tmp_path, job, "jobs/train.yml")
    write(tmp_path, "", "src/train.py")
    write(tmp_path, "", "tests/test_it.py")
    config = load(tmp_path)
    assert config.file == tmp_path / "aml-train.yml"
    assert config.directory == tmp_path
    assert config.job.document == yaml.safe_load(job)
    assert (config.job.file, config.job.directory, config.job.code) == (file, file.parent, tmp_path / "src")
    image = config.image
    assert image is not None
    assert image.base == ImageRef.parse("nvcr.io/nvidia/pytorch:25.09-py3")
    assert image.where == "aml-train.yml:3"
    assert image.apt == ("libgl1", "libx=1.0-1")
    assert image.pip == PipConfig(
        requirements=tmp_path / "requirements.txt", packages=("numpy>=2", "a[b]==1.0; python_version >= '3.11'")
    )
    assert (image.azureml_mlflow, image.azureml_defaults) == ("latest", "1.62.0")
    assert image.env == {"A": "text", "B": "5"}
    assert (image.repository, image.platform) == ("team/digits", "linux/amd64")
    tests = config.tests
    assert tests is not None
    assert (tests.command, tests.files, tests.env) == ("pytest -q tests", ("src", "*.py"), {"C": "1"})
    assert (tests.timeout, tests.network, tests.junit) == (5400.0, True, "out/j.xml")
    assert [(rule.metric, rule.rule.text, rule.where) for rule in config.gate] == [
        ("val/top 1.acc", ">= 0.95", "aml-train.yml:13"),
        ("val/top 1.acc", "min > 0.1", "aml-train.yml:13"),
        ("loss", "< 0.2", "aml-train.yml:14"),
    ]
    model = config.model
    assert model is not None
    assert (model.name, model.path, model.output, model.type) == ("digits", None, "model", "mlflow_model")
    assert (model.description, model.tags) == ("text", {"a": "b"})
    assert config.watch == WatchConfig(timeout=172800.0, queue_timeout=90.0)
    assert config.target == TargetConfig(
        name="azure",
        kind="azure",
        subscription_id="00000000-0000-0000-0000-000000000000",
        resource_group="my.group",
        workspace="my-ws",
        registry="my.azurecr.io",
        push_registry="localhost:5000",
        compute="gpu",
    )
    assert config.notices == ("The image replaces the job's `environment`.",)


def test_defaults(job_folder: Path) -> None:
    write(
        job_folder, "job: {command: x}\nimage: {base: python}\ntests: {command: y}\nmodel: {name: m, path: outputs}\n"
    )
    config = load(job_folder)
    assert config.image is not None
    assert config.image.repository is None, "the project's name is not the configuration's"
    assert (config.image.pip, config.image.azureml_mlflow, config.image.azureml_defaults) == (PipConfig(), None, None)
    assert config.tests is not None
    assert (config.tests.timeout, config.tests.network, config.tests.files) == (1800.0, False, ())
    assert config.model is not None
    assert config.model.type == "custom_model"
    assert config.target == TargetConfig(name="local", kind="local")
    assert (config.gate, config.watch, config.overrides, config.notices) == ((), WatchConfig(), {}, ())


def test_good_jobs(good_job: str, job_folder: Path) -> None:
    write(job_folder, good_job, "job.yml")
    config = load(job_folder)
    assert config.file is None
    assert config.directory == config.job.directory == job_folder
    assert config.job.file == job_folder / "job.yml"
    document = yaml.safe_load(good_job)
    for key in ("id", "status", "creation_context", "log_files", "parameters"):
        document.pop(key, None)
    if "environment_variables" in document:
        document["environment_variables"] = {k: str(v) for k, v in document["environment_variables"].items()}
    if isinstance(document["environment"], dict) and "version" in document["environment"]:
        document["environment"]["version"] = "3"
    if "max_instance_count" in document.get("resources", {}):
        document["resources"]["max_instance_count"] = 4
    if document.get("distribution", {}).get("process_count_per_instance") == "2":
        document["distribution"]["process_count_per_instance"] = 2
    assert config.job.document == document


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("src", "src"),
        (".", "."),
        ("src/../src/train.py", "src/train.py"),
        ("azureml:c:1", None),
        ("git+https://x/y", None),
    ],
)
def test_code(code: str, expected: str | None, job_folder: Path) -> None:
    write(job_folder, f"command: x\nenvironment: azureml:e:1\ncode: {code}\n", "job.yml")
    assert load(job_folder).job.code == (None if expected is None else Path(job_folder, expected))


def test_the_image_makes_the_environment_optional(tmp_path: Path) -> None:
    write(tmp_path, "job: job.yml\nimage: {base: python}\n")
    write(tmp_path, "command: x\n", "job.yml")
    assert "environment" not in load(tmp_path).job.document


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ({"aml-train.yml": JOB, "job.yml": "command: y"}, {}, "aml-train.yml"),
        ({"aml-train.yaml": JOB}, {}, "aml-train.yaml"),
        ({"other.yml": JOB, "aml-train.yml": "x: y"}, {"path": Path("other.yml")}, "other.yml"),
        ({"sub/job.yml": "command: x\nenvironment: azureml:e:1\n"}, {"path": Path("sub/job.yml")}, None),
        ({"job.yaml": "command: x\nenvironment: azureml:e:1\n"}, {}, None),
        ({"mine.yml": "command: x\nenvironment: azureml:e:1\n"}, {"job": Path("mine.yml")}, None),
        (
            {"aml-train.yml": JOB, "j/m.yml": "command: m\nenvironment: azureml:e:1"},
            {"job": Path("j/m.yml")},
            "aml-train.yml",
        ),
    ],
)
def test_finding_the_file(
    files: dict[str, str], options: dict[str, Any], expected: str | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        write(tmp_path, text, name)
    config = load(tmp_path, **options)
    assert config.file == (None if expected is None else tmp_path / expected)
    if "job" in options:
        assert config.job.file == tmp_path / options["job"]


def test_paths_start_from_their_file(tmp_path: Path) -> None:
    write(tmp_path, "job: ../job.yml\nimage: {base: x, pip: r.txt}\n", "a/aml-train.yml")
    write(tmp_path, "", "a/r.txt")
    write(tmp_path, "command: x\ncode: code\n", "job.yml")
    write(tmp_path, "", "code/x.py")
    config = load(tmp_path, path=Path("a/aml-train.yml"))
    assert config.directory == tmp_path / "a"
    assert config.job.code == tmp_path / "code"
    assert config.image is not None
    assert config.image.pip.requirements == tmp_path / "a/r.txt"


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("", None, TargetConfig(name="local", kind="local")),
        ("targets: {local: {compute: cpu}}\n", "local", TargetConfig(name="local", kind="local", compute="cpu")),
        ("", "azure", TargetConfig(name="azure", kind="azure")),
        ("targets: {a: {workspace: ws}}\n", "a", TargetConfig(name="a", kind="azure", workspace="ws")),
    ],
)
def test_target(text: str, given: str | None, expected: TargetConfig, tmp_path: Path) -> None:
    write(tmp_path, JOB + text)
    assert load(tmp_path, target=given).target == expected


def test_target_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, JOB + f"targets: {{azure: {{{WORKSPACE}}}}}\n")
    assert (
        complaint(tmp_path, target="azrue") == "--target: the target `azrue` is not configured: did you mean `azure`?"
    )
    assert complaint(tmp_path, target="x") == "--target: the target `x` is not configured: known are `local`, `azure`"


@pytest.mark.parametrize(
    ("given", "overrides", "inputs"),
    [
        ("job.inputs.epochs=7", {"job.inputs.epochs": 7}, {"epochs": 7}),
        ("job.inputs.epochs={value: 7}", {"job.inputs.epochs": {"value": 7}}, {"epochs": {"value": 7}}),
        ("job.inputs.epochs=a # b", {"job.inputs.epochs": "a # b"}, {"epochs": "a # b"}),
        ("job.inputs.epochs='no'", {"job.inputs.epochs": "no"}, {"epochs": "no"}),
        (" job . inputs . 'epochs' = 0.5 ", {"job.inputs.epochs": 0.5}, {"epochs": 0.5}),
        ("job.inputs={epochs: 1}", {"job.inputs": {"epochs": 1}}, {"epochs": 1}),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
def test_set_reaches_into_the_job(
    given: str, overrides: dict[str, Any], inputs: dict[str, Any], inline: bool, tmp_path: Path
) -> None:
    write(tmp_path, JOB if inline else "job: job.yml\n")
    write(tmp_path, yaml.safe_dump(yaml.safe_load(JOB)["job"]), "job.yml")
    config = load(tmp_path, sets=[given])
    assert config.overrides == overrides
    assert config.job.document["inputs"] == inputs


SWEEP = """\
type: sweep
trial: {command: 'x ${{search_space.rate}} ${{inputs.data}} $SEED', environment: 'azureml:e:1'}
inputs: {data: 1}
sampling_algorithm: random
objective: {goal: minimize, primary_metric: loss}
limits: {max_total_trials: 2}
search_space: {rate: {type: choice, values: [1]}}
"""
PIPELINE = """\
type: pipeline
inputs: {epochs: 1}
jobs:
  own: {command: 'x ${{inputs.epochs}}', inputs: {epochs: '${{parent.inputs.epochs}}'}, environment: 'azureml:e:1'}
  file: {component: part.yml, inputs: {seed: 1}}
"""
PART = "command: x ${{inputs.seed}}\nenvironment: azureml:e:1\ninputs: {seed: {type: integer}, size: {type: integer, optional: true}}\n"


def test_nodes_refer_to_their_pipeline_where_azure_ai_ml_lets_them(tmp_path: Path) -> None:
    # azure-sdk-for-python, tests/test_configs/dsl_pipeline/data_binding_expression: input_literal_meta.yml,
    # run_settings_sweep_limits.yml, run_settings_sweep_literal.yml.
    text = """\
type: pipeline
inputs: {metric: loss, n: 2}
jobs:
  tune:
    type: sweep
    inputs: {size: 'of ${{parent.name}}'}
    search_space: {rate: {type: choice, values: [1]}}
    sampling_algorithm: random
    objective: {goal: minimize, primary_metric: '${{parent.inputs.metric}}'}
    limits: {max_total_trials: '${{parent.inputs.n}}'}
    trial: part.yml
"""
    part = "command: x ${{inputs.rate}} ${{inputs.size}}\nenvironment: azureml:e:1\ninputs: {rate: {type: number}, size: {type: string}}\n"
    write(tmp_path, part, "part.yml")
    write(tmp_path, text, "job.yml")
    assert load(tmp_path, path=Path("job.yml")).job is not None
    write(tmp_path, text.replace("max_total_trials: '${{parent.inputs.n}}'", ""), "job.yml")
    assert "the key `max_total_trials` of `jobs.tune.limits` is missing" in complaint(tmp_path, path=Path("job.yml"))


@pytest.mark.parametrize(
    ("job", "given", "fault"),
    [
        ("command", "job.inputs.epoch=99", "the job has no `inputs.epoch`: did you mean `epochs`?"),
        ("command", "job.inputs.other=1", "the job has no `inputs.other`: declare it in the job, or use it in its command"),
        ("command", "job.inputs.later=1", ""),
        ("command", "job.outputs.modle.path=azureml://datastores/d/paths/p", "the job has no `outputs.modle`: did you mean `model`?"),
        ("command", "job.environment_variables.SED=1", "the job has no `environment_variables.SED`: did you mean `SEED`?"),
        ("command", "job.environment_variables.SIZE=1", ""),
        ("sweep", "job.inputs.dat=1", "the job has no `inputs.dat`: did you mean `data`?"),
        ("sweep", "job.search_space.rat={type: choice, values: [1]}", "the job has no `search_space.rat`: did you mean `rate`?"),
        ("sweep", "job.trial.environment_variables.SEED=2", ""),
        ("pipeline", "job.inputs.epoch=2", "the job has no `inputs.epoch`: did you mean `epochs`?"),
        ("pipeline", "job.jobs.own.inputs.epoch=2", "the job has no `inputs.epoch`: did you mean `epochs`?"),
        ("pipeline", "job.jobs.file.inputs.seeds=2", "`jobs.file.inputs.seeds` is no input of the component: did you mean `seed`?"),
        ("pipeline", "job.jobs.file.inputs.size=2", ""),
        ("runconfig", "job.environmentVariables.SED=1", "the job has no `environmentVariables.SED`: did you mean `SEED`?"),
    ],
)  # fmt: skip
def test_set_of_what_the_job_has_not(job: str, given: str, fault: str, tmp_path: Path) -> None:
    command = "command: x ${{inputs.epochs}} ${{inputs.later}} $SIZE\nenvironment: azureml:e:1\n"
    more = "inputs: {epochs: 5}\noutputs: {model: }\nenvironment_variables: {SEED: 1}\n"
    file = "job.runconfig" if job == "runconfig" else "job.yml"
    runconfig = "command: x\nenvironment: {docker: {baseImage: b}}\nenvironmentVariables: {SEED: 1}\n"
    texts = {"command": command + more, "sweep": SWEEP, "pipeline": PIPELINE, "runconfig": runconfig}
    write(tmp_path, PART, "part.yml")
    write(tmp_path, texts[job], file)
    sets = [given] if job != "command" or "later" in given else [given, "job.inputs.later=1"]
    if fault:
        assert complaint(tmp_path, path=Path(file), sets=sets) == f"--set {given.partition('=')[0]}: {fault}"
    else:
        load(tmp_path, path=Path(file), sets=sets)


def test_a_pipeline_job_that_is_a_component_has_its_nodes(tmp_path: Path) -> None:
    part = "type: pipeline\ninputs: {n: {type: integer}, k: {type: integer, default: 2}, o: {type: string, optional: true}}\n"
    part += "outputs: {model: {type: uri_folder}}\nsettings: {default_compute: a}\njobs:\n  train:\n    command: x $[[${{inputs.o}}]]\n"
    part += "    code: src\n    environment: azureml:e:1\n    inputs: {n: '${{parent.inputs.n}}', o: '${{parent.inputs.o}}'}\n"
    (tmp_path / "sub" / "src").mkdir(parents=True)
    write(tmp_path, part, "sub/part.yml")
    write(tmp_path, "type: pipeline\ncomponent: sub/part.yml\ninputs: {n: 3}\n", "job.yml")
    job = load(tmp_path, path=Path("job.yml")).job
    assert [node.name for node in job.nodes] == ["train"]
    assert job.document["inputs"] == {"k": 2, "n": 3}
    assert job.document["outputs"] == {"model": {"type": "uri_folder"}}
    assert job.document["settings"] == {"default_compute": "a"}
    assert job.document["jobs"]["train"]["inputs"] == {"n": "${{parent.inputs.n}}"}
    assert job.document["jobs"]["train"]["code"] == "sub/src"
    write(tmp_path, "type: pipeline\ncomponent: sub/part.yml\n", "job.yml")
    assert complaint(tmp_path, path=Path("job.yml")) == (
        "job.yml:1: the input `n` of the component is missing: give it under `inputs`"
    )
    write(tmp_path, "type: pipeline\ncomponent: azureml:part:1\n", "job.yml")
    assert "job.yml:2: the nodes of the pipeline are not known here" in complaint(tmp_path, path=Path("job.yml"))


def test_set_of_an_input_that_a_later_set_uses(tmp_path: Path) -> None:
    write(tmp_path, "command: x\nenvironment: azureml:e:1\n", "job.yml")
    sets = ["job.inputs.n=3", "job.command=echo ${{inputs.n}}"]
    assert load(tmp_path, path=Path("job.yml"), sets=sets).job.document["inputs"] == {"n": 3}


@pytest.mark.parametrize(
    ("text", "pull"), [("", "check"), (", pull: always", "always"), (", pull: missing", "missing")]
)
def test_when_the_registry_is_asked_for_the_base(text: str, pull: str, tmp_path: Path) -> None:
    write(tmp_path, JOB + f"image: {{base: a{text}}}\n")
    image = load(tmp_path).image
    assert image is not None
    assert image.pull == pull
    changed = load(tmp_path, sets=["image.pull=missing"]).image
    assert changed is not None
    assert changed.pull == "missing"
    assert "`image.pull`" in complaint(tmp_path, sets=["image.pull=never"])


def test_secrets_that_options_name_are_marked(tmp_path: Path) -> None:
    write(tmp_path, JOB + "image: {base: a, secrets: {file: {env: A}, mixed: {env: B}}}\n")
    sets = ["image.secrets.mixed.env=C", "image.secrets.option.env=K", "image.secrets.whole={env: D}"]
    image = load(tmp_path, sets=sets).image
    assert image is not None
    named = {name: (one.env, one.by_option) for name, one in image.secrets.items()}
    assert named == {"file": ("A", False), "mixed": ("C", True), "option": ("K", True), "whole": ("D", True)}


def test_set_on_a_bare_job(tmp_path: Path) -> None:
    write(tmp_path, "command: x ${{inputs.a}}\n", "job.yml")
    sets = ["job.inputs.a=1", "image.base=python:3.11", "image.apt=[libx]", "image.apt.1=liby", "image.apt.0=libz"]
    config = load(tmp_path, sets=[*sets, 'gate."val.loss"=>= 0.5', "gate.acc=['> 1', '< 2']", "gate.x=< 3"])
    assert config.job.document["inputs"] == {"a": 1}
    assert config.image is not None
    assert config.image.apt == ("libz", "liby")
    assert config.image.where == "--set image.base"
    assert [(rule.metric, rule.rule.text) for rule in config.gate] == [
        ("val.loss", ">= 0.5"),
        ("acc", "> 1"),
        ("acc", "< 2"),
        ("x", "< 3"),
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("nothing", "--set nothing: this is not `key=value`: write such as --set job.inputs.epochs=5"),
        ("job.input.epochs=x", "--set job.input.epochs: unknown key `job.input`: did you mean `inputs`?"),
        (
            "job.inputs.epochs=no",
            (
                "--set job.inputs.epochs: `job.inputs.epochs` is ambiguous: YAML reads `no` as the boolean false; "
                'write "no" in quotes for the text, or the plain value'
            ),
        ),
        (
            "job.command=x ${{inputs.epoch}}",
            "--set job.command: the command refers to the input `epoch`, which is not declared: did you mean `epochs`?",
        ),
        (
            "image.base.x=1",
            "--set image.base.x: `image.base` is a single value and has no key `x`: set `image.base` itself",
        ),
        ("image.apt.5=x", "--set image.apt.5: `image.apt` is a list and has no item `5`: write a number from 0 to 1"),
        ("target=!foo x", "--set target: the YAML tag `!foo` is not allowed: values are plain data; delete the tag"),
        ("watch=\ud800", "--set: the argument is not plain UTF-8 text: delete the odd characters"),
        ("a=" + "[" * 9999, "--set a: the values are nested deeper than 50 levels"),
    ],
)
def test_bad_set(given: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path, JOB + "image: {base: python, apt: [libx]}\n")
    assert complaint(tmp_path, sets=[given]) == expected


def test_retries_and_cost(tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(
        """\
job: {command: x, environment: 'azureml:e:1'}
retry: {preempted: 2}
watch: {run-timeout: 2h}
cost:
  currency: EUR
  prices:
    Standard_ND96asr_v4: {dedicated: 27.2, low-priority: 5}
    Standard_NC6s_v3: 3
  max-node-hours: 40
  max-cost: 0.5
"""
    )
    config = load_config(None, directory=tmp_path)
    assert config.retry == RetryConfig(preempted=2)
    assert config.watch == WatchConfig(run_timeout=7200.0)
    assert config.cost == CostConfig(
        currency="EUR",
        prices={
            "standard_nd96asr_v4": Price(dedicated=27.2, low_priority=5),
            "standard_nc6s_v3": Price(dedicated=3.0),
        },
        max_node_hours=40,
        max_cost=0.5,
        where="aml-train.yml:4",
    )


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --lr 1",
        "python ${{inputs.script}}",
        "python -m torch.distributed.run train.py",
        "python -c 'import trian'",
        "cd deep && python main.py",
        "git clone x && python x/main.py",
        "echo 1 > made.py; python made.py",
        "python /opt/main.py",
        "X=1 python train.py $ARGUMENTS",
        "python train.py $[[--lr ${{inputs.lr}}]]",
        "pytest -q",
        "echo it's; python train.py",
    ],
)
def test_what_only_a_shell_knows_of_a_command_is_left_alone(command: str, tmp_path: Path) -> None:
    script = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--lr", required=True)\n'
    write(tmp_path, script, "src/train.py")
    job = {"code": "src", "environment": "azureml:e:1", "command": command, "inputs": {"script": "trian.py", "lr": 1}}
    write(tmp_path, yaml.safe_dump(job), "job.yml")
    load(tmp_path, path=Path("job.yml"))


def test_a_rule_for_nearly_a_metric_that_the_code_logs_is_remarked_on(tmp_path: Path) -> None:
    write(
        tmp_path,
        'mlflow.log_metric("val/accuracy", 1)\nmlflow.log_metrics({"val/loss": 1, "f1": x})\n',
        "src/train.py",
    )
    write(tmp_path, 'mlflow.log_metric("val/acuracy", 1)\n', "src/env/lib/site-packages/other.py")
    gate = "gate:\n  val/acuracy: '>= 0.9'\n  val/loss: '< 1'\n  other: '> 0'\n  val/los: {rules: '< 1', file: outputs/r.json}\n"
    write(tmp_path, f"job: {{command: python train.py, code: src, environment: 'azureml:e:1'}}\n{gate}")
    assert [str(one) for one in load(tmp_path).notices] == [
        "aml-train.yml:3: the code logs no `val/acuracy`, but `val/accuracy`: is that meant?"
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("joblib.dump(model, 'model.joblib')", {"model.joblib": "train.py:1"}),
        ("\ntorch.save(net.state_dict(), './nets/net.pt')", {"nets/net.pt": "train.py:2"}),
        ("pickle.dump(m, open('m.pkl', 'wb'))", {"m.pkl": "train.py:1"}),
        ("frame.to_csv('scores.csv', index=False)", {"scores.csv": "train.py:1"}),
        ("with open('m.json', mode='w') as file: json.dump(m, file)", {"m.json": "train.py:1"}),
        ("booster.save_model(fname='m.ubj')", {"m.ubj": "train.py:1"}),
        ("plt.savefig('curve.png'); mlflow.log_artifact('curve.png')", {}),
        ("joblib.dump(m, 'outputs/m.joblib'); m.to_csv('./logs/a.csv'); torch.save(m, '/tmp/m.pt')", {}),
        ("joblib.dump(m, path); joblib.dump(m, f'{folder}/m.joblib'); open('data.csv'); pd.read_csv('x.csv')", {}),
        ("os.chdir('outputs'); joblib.dump(m, 'm.joblib')", {}),
        ("torch.save(m, 'abfss://x/m.pt'", {}),
        ("joblib.dump(m, 'models/m.pkl'); mlflow.log_artifacts('models')", {}),
        ("frame.to_csv(path, float_format='%.4f')", {}),
    ],
)
def test_files_that_code_writes_outside_outputs(tmp_path: Path, code: str, found: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text(code)
    (tmp_path / "test_train.py").write_text("joblib.dump(1, 'of-tests.joblib')")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    assert files_not_kept(tmp_path) == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("mlflow.log_metric('acc', 1)\nrun.log('loss', 2)\nself.run.log('f1', 3)", ["acc", "loss", "f1"]),
        ("mlflow.log_metric(key='acc', value=1)\nmlflow.log_metrics({'a': 1, 'b': 2, **more})", ["acc", "a", "b"]),
        ("scores = {'rmse': 1, 'mae': 2}\nfor name, value in scores.items():\n    mlflow.log_metric(name, value)", ["rmse", "mae"]),
        ("for name in ('p', 'r'):\n    mlflow.log_metric(name, f(name))", ["p", "r"]),
        ("for name, f in [('p', g), ('r', h)]:\n    mlflow.log_metric(name, f())", ["p", "r"]),
        ("scores = {'auc': 1}\nmlflow.log_metrics(scores)", ["auc"]),
        ("x = y\ny = x\nmlflow.log_metric(x, 1)\nmlflow.log_metric(f'{a}/b', 1)\nlogger.log('no', 1)", []),
        ("mlflow.log_metric('acc' 1", []),
        ("for () in x: pass\nx = {}\nfor name in x.items().keys().items(): mlflow.log_metric(name, 1)", []),
        ("x = " + "[" * 90 + "'a'" + "]" * 90 + "\nmlflow.log_metrics(x)\nmlflow" + ".x()" * 400 + ".log_metric('b', 1)", ["b"]),
    ],
)  # fmt: skip
def test_metrics_that_code_logs_by_literal_names(code: str, found: list[str]) -> None:
    assert [name for name, _ in logged_metrics(code)] == found


TYPER = "import typer\nfrom typing import Annotated, Optional\n"
TYPER_RUN = (
    f"{TYPER}def main(data: str, rate: Annotated[float, typer.Option('--lr')], n: int = 3): ...\ntyper.run(main)\n"
)
TYPER_APP = f"{TYPER}app = typer.Typer()\n@app.command()\ndef main(run_id: str = typer.Option(...), k: int = typer.Option(3)): ...\n"
CLICK = "import click\n@click.command()\n@click.argument('data')\n@click.argument('out')\n@click.option('--lr', required=True)\n"
CLICK += "@click.option('--fast', is_flag=True)\ndef f(**k): ...\nf()\n"
ARGPARSE = "import argparse as a\np = a.ArgumentParser()\np.add_argument('data')\np.add_argument('-l', '--lr', required=True)\n"
ARGPARSE += "p.add_argument('--fast', action='store_true')\np.add_argument('--many', nargs='*')\np.parse_args()\n"
FIRE = "import fire\ndef main(data_dir, out, n=3, *, seed): ...\nfire.Fire(main)\n"


@pytest.mark.parametrize(
    ("script", "arguments", "missing"),
    [
        (TYPER_RUN, "", ["--lr", "data"]),
        (TYPER_RUN, "x.csv --lr 1", []),
        (TYPER_RUN, "x.csv --lr=1", []),
        (TYPER_RUN, "--lr 1 --n 3", ["data"]),
        (f"{TYPER}def main(data: str, fast: bool = False): ...\ntyper.run(main)\n", "--fast x.csv", []),
        (TYPER_APP, "", ["--run-id"]),
        (TYPER_APP, "--run-id 1 --k 2", []),
        # Which one is meant is known at run time, or its value comes from elsewhere.
        (f"{TYPER_APP}@app.command()\ndef other(): ...\n", "", []),
        (TYPER_APP.replace("@app.command()", "@app.command()\n@with_file"), "", []),
        (
            f"{TYPER}def main(x: Annotated[str, typer.Option(envvar='X')], y: Optional[str]): ...\ntyper.run(main)\n",
            "",
            [],
        ),
        (FIRE, "", ["--data_dir", "--out", "--seed"]),
        (FIRE, "a --n 3", ["--out", "--seed"]),
        (FIRE, "a b --seed=1", []),
        (FIRE, "--data-dir a --out b --seed 1", []),
        (FIRE.replace("main)", "{'main': main})"), "", []),
        ("import argparse as a\np = a.ArgumentParser()\nif x:\n    p.add_argument('--lr', required=True)\n", "", []),
        ("import click\n@click.command()\n@click.option('--lr', required=True, envvar='LR')\ndef f(): ...\n", "", []),
        (CLICK, "--lr 1 --fast a", ["out"]),
        (CLICK, "", ["--lr", "data", "out"]),
        (CLICK, "--lr 1 --fast a b", []),
        (ARGPARSE, "--lr 1", ["data"]),
        (ARGPARSE, "--lr 1 --many -1", []),
        (ARGPARSE, "-l 1 --fast a", []),
        (ARGPARSE, "--lr 1 -- -x", []),
        ("import argparse as a\na.ArgumentParser().add_argument('-o', required=True)\n", "-ofile", []),
    ],
)
def test_what_a_script_requires_is_in_the_command(
    script: str, arguments: str, missing: list[str], tmp_path: Path
) -> None:
    """Cases of typer 0.20, fire 0.7, click 8 and argparse: those with something missing end with 2 there, the others do not."""
    write(tmp_path, script, "src/train.py")
    job = {"code": "src", "environment": "azureml:e:1", "command": f"python train.py {arguments}"}
    write(tmp_path, yaml.safe_dump(job), "job.yml")
    found = "" if not missing else complaint(tmp_path, path=Path("job.yml"))
    assert sorted(re.findall(r"gives `train.py` no `([^`]+)`", found)) == missing
    if not missing:
        load(tmp_path, path=Path("job.yml"))


@pytest.mark.parametrize("kind", ["command", "sweep"])
def test_an_input_that_nothing_reads_is_remarked_on(kind: str, tmp_path: Path) -> None:
    job = "inputs: {data: {type: uri_folder, path: 'azureml:d:1'}, lr: 1, name: a}\n"
    part = "code: src\nenvironment: azureml:e:1\ncommand: python train.py --lr ${{inputs.lr}}\n"
    part += "environment_variables: {NAME: '${{inputs.name}}'}\n"
    if kind == "sweep":
        job += "type: sweep\nsampling_algorithm: random\nobjective: {goal: minimize, primary_metric: loss}\nsearch_space: {b: {type: choice, values: [1]}}\nlimits: {max_total_trials: 1}\n"
        part = "trial:\n" + "".join(f"  {line}\n" for line in part.splitlines())
    write(tmp_path, job + part, "job.yml")
    write(tmp_path, "print(1)\n", "src/train.py")
    remark = "job.yml:1: the command does not use the input `data`: write `${{inputs.data}}` where it is meant"
    assert load(tmp_path, path=Path("job.yml")).notices == (remark,)
    # AzureML also passes inputs by variables: AZURE_ML_INPUT_data, AZUREML_PARAMETER_data.
    write(tmp_path, "python train.py $AZURE_ML_INPUT_data\n", "src/more/run.sh")
    assert load(tmp_path, path=Path("job.yml")).notices == ()


def test_a_job_file_of_another_kind_is_named_as_such(tmp_path: Path) -> None:
    write(tmp_path, "type: finetuning\ntask: chat_completion\nmodel: azureml:m:1\n", "tune.yml")
    assert complaint(tmp_path, path=Path("tune.yml")).startswith(
        "tune.yml:1: `type` must be `command`: it is `finetuning`;"
    )
