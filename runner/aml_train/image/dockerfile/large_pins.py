"""Pick the large packages out of a requirements file, so that they get a layer of their own.

A change of one small requirement would otherwise install, compress and push hundreds of megabytes again. The layer is made by
``pip install --no-deps`` of the lines that pin an exact version: nothing is resolved there. What the whole file asks for is resolved in
the step after it, which finds those packages installed; what ends up in the image is the same as in one step. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from aml_train.image.requirements_file import logical_lines

_NAMES: Final = """
    bitsandbytes botocore catboost faiss-cpu faiss-gpu gensim h5py jax jaxlib keras lightgbm llvmlite matplotlib mlflow mxnet numba
    numpy onnx onnxruntime onnxruntime-gpu opencv-python opencv-python-headless paddlepaddle paddlepaddle-gpu pandas pillow
    plotly polars pyarrow ray rdkit scikit-image scikit-learn scipy spacy statsmodels sympy tensorboard tensorflow
    tensorflow-cpu tokenizers torch torchaudio torchvision transformers triton vllm xformers xgboost
    """
LARGE: Final = frozenset(_NAMES.split())
"""Names, normalised, of packages of tens of megabytes and more that come as wheels.

What is built from source is not among them: it often needs others to be there first.
"""

_LARGE_FAMILIES: Final = ("cupy-", "jax-cuda", "nvidia-", "polars-runtime-", "tensorrt")
_OPTIONS: Final = re.compile(
    r"--?(?:i|f|index-url|extra-index-url|no-index|find-links|trusted-host|no-binary|only-binary|prefer-binary|pre|require-hashes)\b"
)
_HASHES: Final = re.compile(r"\s--hash[=\s].*$")


def large_pins(files: Iterable[bytes]) -> bytes | None:
    """Return a requirements file of the large packages that *files* pin, or None if they pin none.

    Args:
        files: contents of requirements files (pip's "Requirements File Format"), without those that are only constraints.
    """
    options: dict[str, None] = {}
    pins: dict[str, str] = {}
    for content in files:
        for line in logical_lines(content.decode("utf-8", "replace")):
            if _OPTIONS.match(line):
                options[line] = None
            elif (name := _pinned(line)) is not None and _is_large(name):
                pins.setdefault(name, line)
    if not pins:
        return None
    return "".join(f"{line}\n" for line in (*options, *(pins[name] for name in sorted(pins)))).encode()


def _pinned(line: str) -> str | None:
    """Return the normalised name of a requirement that allows exactly one version of an index, else None."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(_HASHES.sub("", line))
    except InvalidRequirement:
        return None
    versions = list(requirement.specifier)
    exact = len(versions) == 1 and versions[0].operator == "==" and not versions[0].version.endswith("*")
    return canonicalize_name(requirement.name) if exact and requirement.url is None else None


def _is_large(name: str) -> bool:
    return name in LARGE or name.startswith(_LARGE_FAMILIES)
