# The action's image: the pipeline and the action. The local AzureML has a separate image.
# The classic builder must build it too (act uses it): no RUN --mount, no heredocs.

FROM python:3.11-slim-bookworm AS docker-cli
WORKDIR /unpacked
# Client and buildx of Debian 13: bookworm's client speaks API 1.41, which engines 29.0 to 29.2 refuse (moby/moby#52067).
# They need nothing but libc 2.34, which bookworm has. The base's keyring verifies both releases.
# hadolint ignore=DL3008
RUN echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" \
        > /etc/apt/sources.list.d/trixie.list \
    && apt-get update \
    && apt-get download docker-cli docker-buildx \
    && dpkg-deb --extract docker-cli_*.deb . \
    && dpkg-deb --extract docker-buildx_*.deb . \
    && mkdir /status.d \
    && for package in docker-cli docker-buildx; do dpkg-deb --field "$package"_*.deb > "/status.d/$package"; done \
    && rm -rf /var/lib/apt/lists/*

FROM python:3.11-slim-bookworm AS packages
WORKDIR /build
COPY requirements/client.txt ./
RUN python -m venv --without-pip /opt/aml-train \
    && python -m pip --python /opt/aml-train/bin/python install --no-cache-dir --no-compile --disable-pip-version-check \
        --root-user-action=ignore --require-hashes -r client.txt \
    && /opt/aml-train/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/aml-train/lib
COPY runner/aml_train /opt/aml-train/lib/python3.11/site-packages/aml_train
COPY action/aml_train_action /opt/aml-train/lib/python3.11/site-packages/aml_train_action
COPY action/post /opt/aml-train/bin/aml-train-post
# Unchecked: files in an image do not change, so that no source file is read when a module is imported.
RUN /opt/aml-train/bin/python -m compileall -q -f --invalidation-mode unchecked-hash \
        /opt/aml-train/lib/python3.11/site-packages/aml_train \
        /opt/aml-train/lib/python3.11/site-packages/aml_train_action

FROM python:3.11-slim-bookworm
# git reads the commit. Debian keeps no older versions to pin; the base image's tag and the release bound the packages.
# Logs hold times: without them two builds give the same files.
# Engines 28.5 and 29 refuse archive calls on a container with a mount below /var/run where that is a link.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/cache/ldconfig/aux-cache \
    && if [ -L /var/run ]; then rm /var/run && mkdir /var/run; fi
COPY --from=docker-cli /unpacked/usr/bin/docker /usr/local/bin/docker
COPY --from=docker-cli /unpacked/usr/libexec/docker/cli-plugins/docker-buildx /usr/libexec/docker/cli-plugins/docker-buildx
# Scanners read here which packages an image has in addition to dpkg's own.
COPY --from=docker-cli /status.d /var/lib/dpkg/status.d
COPY --from=packages /opt/aml-train /opt/aml-train
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Both programs run on this libc, and everything that is imported at the start is there.
RUN docker buildx version \
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
