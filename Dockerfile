# The action's image: the pipeline and the action. The local AzureML has a separate image.
# The classic builder must build it too (act uses it): no RUN --mount, no heredocs.

FROM python:3.11-slim-bookworm AS programs
WORKDIR /debs
# git reads the commit: one program, whose built-in commands need two libraries of the base. The package's dependencies,
# 26 MB, are for commands in Perl and transports, which the action does not use.
# Client and buildx of Debian 13: bookworm's client speaks API 1.41, which engines 29.0 to 29.2 refuse (moby/moby#52067).
# They need nothing but libc 2.34, which bookworm has. The base's keyring verifies both releases.
# Debian keeps no older versions to pin; the base image's tag and the release bound the packages.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get download git \
    && echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" \
        > /etc/apt/sources.list.d/trixie.list \
    && apt-get update \
    && apt-get download docker-cli docker-buildx \
    && mkdir -p /programs/usr/bin /programs/usr/local/bin /programs/usr/libexec/docker/cli-plugins /programs/var/lib/dpkg/status.d \
    && for package in git docker-cli docker-buildx; do \
        dpkg-deb --extract "$package"_*.deb /debs/files \
        && dpkg-deb --field "$package"_*.deb > "/programs/var/lib/dpkg/status.d/$package" || exit 1; \
    done \
    && mv files/usr/bin/git /programs/usr/bin/git \
    && mv files/usr/bin/docker /programs/usr/local/bin/docker \
    && mv files/usr/libexec/docker/cli-plugins/docker-buildx /programs/usr/libexec/docker/cli-plugins/docker-buildx \
    && rm -rf /debs /var/lib/apt/lists/*

FROM python:3.11-slim-bookworm AS packages
WORKDIR /build
COPY requirements/client.txt ./
RUN python -m venv --without-pip /opt/aml-train \
    && python -m pip --python /opt/aml-train/bin/python install --no-cache-dir --no-compile --disable-pip-version-check \
        --root-user-action=ignore --require-hashes -r client.txt
# Bytecode is two thirds of a package's compressed size, and most of these packages is clients of services and lexers that no
# run imports: of the largest, only what the SDKs import is compiled. The rest works without, and is compiled when imported.
# Unchecked: files in an image do not change, so that no source file is read when a module is imported.
WORKDIR /opt/aml-train/lib/python3.11/site-packages
RUN compile="/opt/aml-train/bin/python -m compileall -q -f --invalidation-mode unchecked-hash" \
    && $compile -x '^[.]/(azure/mgmt|azureml/_vendor|pygments)/' . \
    && /opt/aml-train/bin/python -I -B -c "import os, sys, azure.ai.ml, azureml.core; \
files = [getattr(module, '__file__', None) or '' for module in list(sys.modules.values())]; \
print(*[file for file in files if file.startswith(os.getcwd()) and file.endswith('.py')], sep='\\n')" \
        > /build/imported.txt \
    && $compile -i /build/imported.txt
COPY runner/aml_train ./aml_train
COPY action/aml_train_action ./aml_train_action
COPY action/post /opt/aml-train/bin/aml-train-post
RUN /opt/aml-train/bin/python -m compileall -q -f --invalidation-mode unchecked-hash aml_train aml_train_action
# Not run here: a job with `target: local` builds the local AzureML's image from them where no registry has it.
COPY runner/aml_emulator ./aml_emulator
COPY requirements/emulator.txt requirements/node.txt ./aml_emulator/requirements/

FROM python:3.11-slim-bookworm
# Scanners read in status.d which packages an image has in addition to dpkg's own.
COPY --from=programs /programs /
COPY --from=packages /opt/aml-train /opt/aml-train
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Engines 28.5 and 29 refuse archive calls on a container with a mount below /var/run where that is a link.
# The programs run on this libc, and everything that is imported at the start is there.
RUN if [ -L /var/run ]; then rm /var/run && mkdir /var/run; fi \
    && git --version && docker buildx version \
    && /opt/aml-train/bin/python -I -B -c "import aml_train_action.main, aml_train.pipeline.prepare, docker, azure.ai.ml, azure.identity, azureml.core"

ARG VERSION=0.0.0
ARG REVISION=""
LABEL org.opencontainers.image.title="aml-train" \
      org.opencontainers.image.description="From a commit to a gated, registered model on Azure Machine Learning" \
      org.opencontainers.image.source="https://github.com/org/aml-train" \
      org.opencontainers.image.documentation="https://github.com/org/aml-train/blob/main/docs/action.md" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION

# Isolated (-I): neither the workspace, which is the working directory, nor PYTHONPATH of the workflow can replace a module.
ENTRYPOINT ["/opt/aml-train/bin/python", "-I", "-u", "-B", "-m", "aml_train_action"]
