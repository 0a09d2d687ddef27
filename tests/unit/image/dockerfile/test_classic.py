"""Dockerfiles without BuildKit's mounts."""

from __future__ import annotations

import pytest

from aml_train.image.dockerfile.classic import check_dockerfile, classic_dockerfile

APT = """\
RUN --mount=type=cache,target=/var/cache/aml-train-apt,sharing=locked \\
    --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \\
    mkdir -p /var/cache/aml-train-apt/partial \\
    && apt-get install -y \\
        curl"""
PIP = """\
RUN --mount=type=cache,target=/root/.cache/pip,sharing=locked \\
    --mount=type=bind,source=requirements.txt,target=/tmp/aml-train/requirements.txt \\
    pip install -r /tmp/aml-train/requirements.txt"""
CHECK = """\
RUN --mount=type=bind,from=base,target=/tmp/aml-train/base \\
    --mount=type=bind,source=protect.py,target=/tmp/aml-train/protect.py \\
    if python=p; then \\
        "$python" /tmp/aml-train/protect.py /tmp/aml-train/base; \\
    fi"""


def dockerfile(*blocks: str) -> str:
    return "\n\n".join(("FROM b@sha256:1 AS base", "FROM base", *blocks)) + "\n"


def test_a_dockerfile_without_mounts_stays_as_it_is() -> None:
    text = dockerfile("RUN echo --mount=type=cache,target=/x", 'ENV A="b"', "USER x")
    classic = classic_dockerfile(text)
    assert (classic.text, classic.archive, classic.check) == (text, False, None)


def test_a_cache_is_emptied_by_the_step() -> None:
    assert classic_dockerfile(dockerfile("# hadolint ignore=DL3008\n" + APT)).text == dockerfile(
        "# hadolint ignore=DL3008\n"
        "RUN mkdir -p /var/cache/aml-train-apt/partial \\\n"
        "    && apt-get install -y \\\n"
        "        curl \\\n"
        "    && rm -rf \\\n"
        "        /var/cache/aml-train-apt/* \\\n"
        "        /var/lib/apt/lists/*"
    )


def test_a_file_is_copied_and_removed_by_the_step() -> None:
    classic = classic_dockerfile(dockerfile(PIP))
    assert classic.archive
    assert classic.text == "FROM scratch AS aml-train-context\nADD context.tar /\n\n" + dockerfile(
        'COPY --from=aml-train-context ["requirements.txt", "/tmp/aml-train/requirements.txt"]\n'
        "RUN pip install -r /tmp/aml-train/requirements.txt \\\n"
        "    && rm -rf \\\n"
        "        /root/.cache/pip/* \\\n"
        "        /tmp/aml-train/requirements.txt"
    )


def test_a_file_of_another_image_comes_from_there() -> None:
    mount = "--mount=type=bind,from=m@sha256:2,source=/bin/micromamba,target=/tmp/aml-train/micromamba"
    classic = classic_dockerfile(dockerfile(f"RUN {mount} \\\n    micromamba create"))
    assert not classic.archive
    assert 'COPY --from=m@sha256:2 ["/bin/micromamba", "/tmp/aml-train/micromamba"]\nRUN micromamba' in classic.text


def test_files_of_the_context_come_from_the_archive() -> None:
    classic = classic_dockerfile(dockerfile('COPY ["copy/0/a", "/a"]', "COPY --from=conda /opt /opt"))
    assert classic.text.endswith(
        '\nCOPY --from=aml-train-context ["copy/0/a", "/a"]\n\nCOPY --from=conda /opt /opt\n'
    )


def test_the_comparison_with_the_base_is_a_separate_build() -> None:
    classic = classic_dockerfile(dockerfile(APT, CHECK, "USER x"))
    assert classic.check == CHECK
    assert "protect" not in classic.text
    assert classic.text.endswith("/var/lib/apt/lists/*\n\nUSER x\n")
    assert check_dockerfile(CHECK, base="b@sha256:1", image="r/x@sha256:3", kept="protect.py") == (
        "FROM b@sha256:1 AS base\n\n"
        "FROM r/x@sha256:3 AS compared\n\n"
        "USER root\n\n"
        'COPY --from=base ["/", "/tmp/aml-train/base"]\n'
        'COPY ["protect.py", "/tmp/aml-train/protect.py"]\n\n'
        "RUN if python=p; then \\\n"
        '        "$python" /tmp/aml-train/protect.py /tmp/aml-train/base; \\\n'
        "    fi\n\n"
        "FROM scratch\n"
        "COPY --from=compared /tmp/aml-train/protect.py /\n"
    )


def test_a_secret_has_no_equivalent() -> None:
    with pytest.raises(ValueError, match="of the type secret needs BuildKit"):
        classic_dockerfile(dockerfile("RUN --mount=type=secret,id=a,required=true \\\n    x"))
