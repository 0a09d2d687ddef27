"""Well-known packages: the distribution of a module that training code imports often. Pure."""

from __future__ import annotations

import re
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

_SAME_NAME: Final = frozenset(
    [
        "absl-py",
        "accelerate",
        "adlfs",
        "azure-core",
        "azure-identity",
        "azure-storage-blob",
        "azureml-mlflow",
        "black",
        "catboost",
        "cloudpickle",
        "coverage",
        "filelock",
        "flake8",
        "fsspec",
        "h5py",
        "huggingface-hub",
        "hydra-core",
        "imbalanced-learn",
        "ipykernel",
        "isort",
        "joblib",
        "kneed",
        "lightgbm",
        "matplotlib",
        "mlflow",
        "mlflow-skinny",
        "mypy",
        "numexpr",
        "numpy",
        "omegaconf",
        "onnx",
        "onnxruntime",
        "opencv-python",
        "opencv-python-headless",
        "openpyxl",
        "packaging",
        "pandas",
        "patsy",
        "pillow",
        "pip",
        "polars",
        "psutil",
        "pyarrow",
        "pytest",
        "pytest-cov",
        "pytest-mock",
        "pytest-timeout",
        "pytest-xdist",
        "python-dateutil",
        "python-dotenv",
        "pytz",
        "pyyaml",
        "requests",
        "ruff",
        "safetensors",
        "scikit-image",
        "scikit-learn",
        "scipy",
        "seaborn",
        "sentencepiece",
        "setuptools",
        "shap",
        "six",
        "statsmodels",
        "tabulate",
        "tensorboard",
        "threadpoolctl",
        "tokenizers",
        "toml",
        "torch",
        "torchaudio",
        "torchmetrics",
        "torchvision",
        "tqdm",
        "transformers",
        "typing-extensions",
        "urllib3",
        "wheel",
        "xgboost",
        "xlrd",
    ]
)
"""Distributions whose module has their own name."""

_ROWS: Final = (line.partition(":") for line in _MODULES.strip().splitlines())
MODULES: Final = {module.strip(): frozenset(names.split()) for module, _, names in _ROWS}
"""Module → the distributions that install it, if their names differ or several do."""

_PREFERRED: Final = {
    "azureml": "azureml-defaults",
    "cv2": "opencv-python-headless",
    "mlflow": "mlflow-skinny",
    "pytorch_lightning": "pytorch-lightning",
}


def package_for(module: str) -> str | None:
    """Return the distribution of a module; None if the tables do not have it.

    A module's own name is no substitute: anyone may have published another package under it.
    """
    known = MODULES.get(module)
    if known:
        return _PREFERRED.get(module) or min(known, key=lambda name: (len(name), name))
    name = re.sub(r"[-_.]+", "-", module).lower()
    return name if name in _SAME_NAME or name in LARGE else None
