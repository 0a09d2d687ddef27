"""The page of the public job files that run on the local AzureML, from the results that `scripts.examples` has recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from scripts.docs.markdown import page, paragraph, table

RESULTS: Final = Path(__file__).parent / "examples.json"
UNTRIED: Final = "not tried yet"
_SOURCE: Final = "https://github.com/Azure/azureml-examples/blob/main"

#: What azure-ai-ml, aml-train or the local AzureML said of a job that did not run, and the reason in a few words; the first counts.
_REASONS: Final = (
    (r"Validation for \w+ failed", "azure-ai-ml refuses it"),
    (r"it is `(automl|spark|finetuning|distillation)`|node of type `(automl|spark)`", "service: {}"),
    (r"FlowComponent|promptflow", "service: prompt flow"),
    (r"azureml://registries/([\w-]+)/components", "service: components of the registry {}"),
    (r"No such file or directory: /|_is_inferred_optional|pipeline has no input", "data or inputs that its README makes"),
    (r"https://([\w.-]+)/.{0,90}?ConnectionError", "internet: {}"),
    (r"https://([\w.-]+)/\S*\) is a uri_folder|URL fetch failure on https://([\w.-]+)/", "internet: {}"),
    (r"NameResolutionError|Name or service not known|Temporary failure|urlopen error|Could not find a version", "internet"),
    (r"(conda-forge|micromamba|conda\.anaconda|repo\.anaconda)", "internet: {}"),
    (r"(--volume|acpt-pytorch|ACPT\w*|cuda|nvidia|gpu-[\w-]*|V100)", "GPU: {}"),
    (r"computes/([^'\s]+)' was not found|compute target '([^']+)'", "its author's cluster {}"),
    (r"Asset (\S+) does not exist", "its author's asset {}"),
    (r"image '?((?:rocker|julia|mcr\.microsoft\.com|docker\.io)[^\s'\",]*)", "foreign image: {}"),
    (r"does not support (output '\w+' of type 'path')", "not supported: {}"),
    (r"https://(registry-1\.docker\.io|mcr\.microsoft\.com)/v2/", "foreign image: of {}"),
    (r"it did not (end within \d+ s)", "it does not {}"),
    (r"No module named '(\w+)'", "foreign image: {} is not in the stand-in"),
)  # fmt: skip


_SDK_INTRO: Final = (
    "The end-to-end tests of azure-ai-ml 1.34.1 for command jobs, sweeps, components, data, environments, models, computes and "
    "datastores, in live mode, with job files of the repository azure-sdk-for-python: of the 104 that the SDK itself does not skip, "
    "94 pass, seven can pass nowhere but in Microsoft's own subscription or a recording (*), and three are not supported. Of those "
    "for pipelines, 42 pass; the others need files that were not at hand, most of them of AutoML, Spark, data transfer, prompt flow "
    "and loops."
)
_SDK: Final = {
    "command_job: test_command_job_register_output": "* Azure refuses `version` of a command job's output since 2025-01-01-preview",
    "command_job: test_command_job_with_singularity": "* a service: a virtual cluster of Microsoft's",
    "component: test_component_create_get_list_from_registry": "* a registry that refuses the SDK's own recording of March 2026",
    "component: test_load_component_from_flow[basic]": "* a service: prompt flow",
    "component: test_load_component_from_flow[with_environment]": "* a service: prompt flow",
    "component: test_load_component_from_flow_in_registry": "* a service: prompt flow",
    "compute: test_compute_instance_create_and_delete": "compute instances are not supported",
    "compute: test_compute_instance_stop_start_restart": "compute instances are not supported",
    "sweep_job: test_sweep_job_builder": "* compares with an id that a recording has hidden",
    "sweep_job: test_sweep_job_submit_with_resources": "two nodes without a distribution are refused by name",
}


def reason(fault: str, said: str) -> str:
    """Return in a few words why a job does not run here, from what `aml-train validate` and the run *said* of it."""
    for sign, words in _REASONS:
        if found := re.search(sign, f"{fault} {said}"):
            return words.format(next((one for one in found.groups() if one), ""))
    return (said or fault)[:160]


def coverage_page() -> str:
    """Return the page: how many job files run, and a table of all of them."""
    results: dict[str, dict[str, str]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    ran = sum(not found["why"] for found in results.values())
    valid = sum(not found["validate"] for found in results.values())
    untried = sum(found["why"] == UNTRIED for found in results.values())
    left = f", {untried} were not tried yet," if untried else ","
    intro = (
        f"Of the {len(results)} job files of [Azure/azureml-examples](https://github.com/Azure/azureml-examples), {ran} run on "
        f"the local AzureML as they are, submitted by azure-ai-ml{left} and aml-train reads {valid} of all without a fault. Curated "
        "environments were played by images with packages from PyPI, and there was no internet, no GPU and no service of Azure: "
        "the reason why another one does not run is in the second column, and what `aml-train validate` says of it in the third. "
        "`python -m scripts.examples` measures this again."
    )
    rows = [
        (f"[{name}]({_SOURCE}/{name})", found["why"] or "✔", found["validate"] or "✔")
        for name, found in sorted(results.items())
    ]
    sdk = table(("test of the SDK", "why it does not pass"), sorted(_SDK.items()))
    return page(
        "Public jobs on the local AzureML",
        paragraph(intro),
        table(("job file", "runs", "`validate`"), rows),
        "## Tests of azure-ai-ml",
        paragraph(_SDK_INTRO),
        sdk,
    )
