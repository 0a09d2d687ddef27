"""Names of distributions: the modules they install, and what else they bring.

A distribution's modules are listed in its RECORD and, in older ones, in ``top_level.txt`` (PyPA, "Recording installed
projects"); only an installed one can be read (``importlib.metadata.packages_distributions``), and the image is not built
yet. The tables cover the packages that training code imports most. They decide warnings only, and whatever they do not
know gives none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from aml_train.image.requirements_file import LARGE

_MODULES: Final = """
    absl: absl-py
    attr: attrs
    azureml: azureml-core azureml-defaults azureml-sdk azureml-train-core azureml-mlflow
    bs4: beautifulsoup4
    cv2: opencv-python opencv-python-headless opencv-contrib-python opencv-contrib-python-headless opencv
    dateutil: python-dateutil
    dotenv: python-dotenv
    faiss: faiss-cpu faiss-gpu faiss-gpu-cu12
    fitz: pymupdf
    git: gitpython
    google: protobuf
    grpc: grpcio
    hydra: hydra-core
    ignite: pytorch-ignite
    imblearn: imbalanced-learn
    IPython: ipython
    jax: jax
    jwt: pyjwt
    keras: keras tensorflow tensorflow-cpu
    lightning: lightning
    lightning_fabric: lightning-fabric lightning pytorch-lightning
    mlflow: mlflow mlflow-skinny azureml-mlflow
    mpi4py: mpi4py
    mpl_toolkits: matplotlib
    msrest: msrest
    OpenSSL: pyopenssl
    onnxruntime: onnxruntime onnxruntime-gpu
    osgeo: gdal
    past: future
    PIL: pillow pillow-simd
    pkg_resources: setuptools
    psycopg2: psycopg2 psycopg2-binary
    pyarrow: pyarrow
    pylab: matplotlib
    pyspark: pyspark
    pywt: pywavelets
    pytorch_lightning: pytorch-lightning lightning
    ruamel: ruamel-yaml
    sentence_transformers: sentence-transformers
    serial: pyserial
    setuptools: setuptools
    skimage: scikit-image
    sklearn: scikit-learn scikit-learn-intelex
    skopt: scikit-optimize
    slugify: python-slugify
    snappy: python-snappy
    spacy: spacy
    sqlalchemy: sqlalchemy
    tensorboard: tensorboard
    tensorboardX: tensorboardx
    tensorflow: tensorflow tensorflow-cpu tensorflow-gpu tensorflow-intel tensorflow-macos
    tensorflow_datasets: tensorflow-datasets
    tensorflow_probability: tensorflow-probability
    torch: torch pytorch pytorch-cpu pytorch-gpu
    umap: umap-learn
    usb: pyusb
    wx: wxpython
    xdist: pytest-xdist
    xgboost: xgboost xgboost-cpu py-xgboost py-xgboost-cpu py-xgboost-gpu
    yaml: pyyaml
    zmq: pyzmq
"""

_BRINGS: Final = """
    absl-py:
    accelerate: filelock fsspec hf-xet httpx huggingface-hub jinja2 markupsafe mpmath networkx numpy packaging psutil pyyaml requests safetensors setuptools sympy torch tqdm triton typing-extensions
    adlfs: aiohttp azure-core azure-datalake-store azure-identity azure-storage-blob fsspec
    azure-core: requests six typing-extensions certifi charset-normalizer idna urllib3
    azure-identity: azure-core cryptography msal msal-extensions pyjwt
    azure-storage-blob: azure-core cryptography isodate typing-extensions
    azureml-mlflow: azure-common azure-core azure-identity azure-mgmt-core azure-storage-blob cryptography jsonpickle mlflow-skinny msrest python-dateutil pytz
    black: click mypy-extensions packaging pathspec platformdirs pytokens tomli
    catboost: graphviz matplotlib numpy pandas plotly scipy six contourpy cycler fonttools kiwisolver narwhals packaging pillow pyparsing python-dateutil pytz tenacity tzdata
    cloudpickle:
    coverage:
    filelock:
    flake8: mccabe pycodestyle pyflakes
    fsspec:
    h5py: numpy
    huggingface-hub: anyio certifi charset-normalizer click filelock fsspec h11 hf-xet httpcore httpx idna markdown-it-py mdurl packaging pygments pyyaml requests rich shellingham sniffio tqdm typer typer-slim typing-extensions urllib3
    hydra-core: antlr4-python3-runtime importlib-resources omegaconf packaging pyyaml
    imbalanced-learn: joblib numpy scikit-learn scipy sklearn-compat threadpoolctl
    ipykernel: appnope comm debugpy ipython jupyter-client jupyter-core matplotlib-inline nest-asyncio nest-asyncio2 packaging psutil pyzmq tornado traitlets
    isort:
    joblib:
    kneed: numpy scipy
    lightgbm: numpy scipy
    matplotlib: contourpy cycler fonttools kiwisolver numpy packaging pillow pyparsing python-dateutil six
    mlflow: alembic cryptography docker fastapi flask flask-cors graphene gunicorn huey jinja2 joblib markdown markupsafe matplotlib mlflow-skinny mlflow-tracing numpy pandas prometheus-flask-exporter pyarrow pytz scikit-learn scipy shap skops sqlalchemy waitress werkzeug
    mlflow-skinny: cachetools click cloudpickle databricks-sdk fastapi gitpython google-auth importlib-metadata opentelemetry-api opentelemetry-proto opentelemetry-sdk packaging protobuf pydantic python-dotenv pytz pyyaml requests sqlparse starlette typing-extensions uvicorn zipp
    mypy: ast-serialize librt mypy-extensions pathspec typing-extensions
    numexpr: numpy
    numpy:
    opencv-python: numpy
    opencv-python-headless: numpy
    omegaconf: antlr4-python3-runtime pyyaml
    onnx: ml-dtypes numpy protobuf typing-extensions
    onnxruntime: coloredlogs flatbuffers humanfriendly mpmath numpy packaging protobuf sympy
    openpyxl: et-xmlfile
    packaging:
    pandas: numpy python-dateutil pytz six tzdata
    patsy: numpy six
    pillow:
    polars: polars-runtime-32 polars-runtime-64
    psutil:
    pyarrow: numpy
    pytest: exceptiongroup iniconfig packaging pluggy pygments tomli colorama
    pytest-cov: coverage pluggy pytest
    pytest-mock: pytest
    pytest-timeout: pytest
    pytest-xdist: execnet pytest
    python-dateutil: six
    python-dotenv:
    pytz:
    pyyaml:
    requests: certifi charset-normalizer idna urllib3
    ruff:
    safetensors:
    scikit-image: imageio lazy-loader networkx numpy packaging pillow pywavelets scipy tifffile
    scikit-learn: joblib numpy scipy threadpoolctl
    scipy: numpy
    seaborn: contourpy cycler fonttools kiwisolver matplotlib numpy packaging pandas pillow pyparsing python-dateutil pytz six tzdata
    setuptools:
    pip:
    wheel: packaging
    sentencepiece:
    shap: cloudpickle joblib llvmlite numba numpy packaging pandas python-dateutil pytz scikit-learn scipy six slicer threadpoolctl tqdm typing-extensions tzdata
    six:
    statsmodels: numpy packaging pandas patsy python-dateutil pytz scipy six tzdata
    tabulate:
    tensorboard: absl-py google-auth grpcio markdown markupsafe numpy packaging pillow protobuf setuptools six tensorboard-data-server typing-extensions werkzeug
    threadpoolctl:
    tokenizers: huggingface-hub
    toml:
    torch: filelock fsspec jinja2 markupsafe mpmath networkx numpy setuptools sympy triton typing-extensions
    torchaudio: torch
    torchmetrics: lightning-utilities numpy packaging setuptools torch typing-extensions
    torchvision: numpy pillow torch
    tqdm: colorama
    transformers: filelock huggingface-hub numpy packaging pyyaml regex requests safetensors tokenizers tqdm typer
    typing-extensions:
    urllib3:
    xgboost: numpy nvidia-nccl-cu12 scipy
    xlrd:
"""


def _table(text: str) -> dict[str, frozenset[str]]:
    rows = (line.partition(":") for line in text.strip().splitlines())
    return {name.strip(): frozenset(rest.split()) for name, _, rest in rows}


MODULES: Final = _table(_MODULES)
"""Module → the distributions that install it, if their names differ or several do."""

BRINGS: Final = _table(_BRINGS)
"""Distribution → what it installs as well, directly or not; never too little."""


def canonical(name: str) -> str:
    """Return a distribution's normalized name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def may_provide(distribution: str, module: str) -> bool:
    """Return whether a distribution may install a module, judged by the names."""
    name, wanted = canonical(distribution), canonical(module)
    # Distributions such as azure-identity share a namespace.
    if name == wanted or name in MODULES.get(module, ()) or name.startswith(f"{wanted}-"):
        return True
    if name in BRINGS:
        return False
    return wanted in name.split("-") or name.replace("-", "") in (wanted, f"py{wanted}", f"{wanted}py")


def installed_with(names: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return all that distributions install, and those that may install more."""
    found: set[str] = set()
    unknown: list[str] = []
    waiting = [canonical(name) for name in names]
    given = set(waiting)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if name in BRINGS:
            waiting += BRINGS[name]
        elif name in given:
            unknown.append(name)
    return frozenset(found), tuple(sorted(unknown))


def package_for(module: str) -> str | None:
    """Return the distribution of a module; None if the tables do not have it.

    A module's own name is no substitute: anyone may have published another package under it.
    """
    known = MODULES.get(module)
    if known:
        return _PREFERRED.get(module) or min(known, key=lambda name: (len(name), name))
    name = canonical(module)
    return name if name in BRINGS or name in LARGE else None


_PREFERRED: Final = {
    "azureml": "azureml-defaults",
    "cv2": "opencv-python-headless",
    "mlflow": "mlflow-skinny",
    "pytorch_lightning": "pytorch-lightning",
}
