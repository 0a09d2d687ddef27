"""Which lines of a requirements file get a layer of their own."""

from __future__ import annotations

import pytest

from aml_train.image.requirements_file import large_pins


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch==2.9.0\nsix==1.17.0\n", "torch==2.9.0\n"),
        ("six==1.17.0\nscikit_learn == 1.7\nNumPy==2.3.0\n", "NumPy==2.3.0\nscikit_learn == 1.7\n"),
        ("nvidia-cublas-cu12==12.8.4.1\ncupy-cuda12x==13.6.0\n", "cupy-cuda12x==13.6.0\nnvidia-cublas-cu12==12.8.4.1\n"),
        ("torch==2.9.0  # the base has none\n# numpy==1\n", "torch==2.9.0\n"),
        ("torch==2.9.0; sys_platform == 'linux'\n", "torch==2.9.0; sys_platform == 'linux'\n"),
        ("ray[tune]==2.50.0\n", "ray[tune]==2.50.0\n"),
        (
            "--extra-index-url https://download.pytorch.org/whl/cu128\ntorch==2.9.0+cu128\n",
            "--extra-index-url https://download.pytorch.org/whl/cu128\ntorch==2.9.0+cu128\n",
        ),
        (
            "numpy==2.3.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\nsix==1.17.0 --hash=sha256:cc\n",
            "numpy==2.3.0 --hash=sha256:aa --hash=sha256:bb\n",
        ),
        ("-i https://pypi.example/simple\n--pre\npandas==3.0.0rc1\n", "-i https://pypi.example/simple\n--pre\npandas==3.0.0rc1\n"),
    ],
    ids=["one", "names", "families", "comments", "marker", "extra", "local version", "hashes", "options"],
)  # fmt: skip
def test_large_pins(text: str, expected: str) -> None:
    found = large_pins([text.encode()])
    assert found is not None
    assert found.decode() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "six==1.17.0\n",
        "torch\n",
        "torch>=2\n",
        "torch==2.*\n",
        "torch==2.9.0,!=2.9.1\n",
        "torch @ https://example.com/torch-2.9.0-py3-none-any.whl\n",
        "https://example.com/torch-2.9.0-py3-none-any.whl\n",
        "git+https://github.com/pytorch/pytorch\n",
        "--index-url https://pypi.example/simple\n",
        "-r other.txt\n-c torch==2\n",
        "flash-attn==2.8.0\n",
    ],
)
def test_what_is_not_pinned_or_not_large_has_no_layer(text: str) -> None:
    assert large_pins([text.encode()]) is None


def test_several_files_make_one_layer_in_the_order_of_names() -> None:
    assert large_pins([b"torch==2.9.0\n--pre\n", b"numpy==2.3.0\ntorch==2.9.0\n"]) == (
        b"--pre\nnumpy==2.3.0\ntorch==2.9.0\n"
    )
