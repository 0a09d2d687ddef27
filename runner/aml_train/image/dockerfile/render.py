"""Render an image's Dockerfile.

The text is deterministic and carries nothing that changes with the commit. It stays within what Docker 20.10's built-in
BuildKit frontend understands: no here-documents, no ``COPY --link``, and no ``# syntax=`` line, which would need a pull. Steps
that rarely change are first, so that a change rebuilds little: certificates, drivers, apt, conda, Azure's packages, the large ones of the
requirements (:mod:`aml_train.image.requirements_file`), all of them, packages, environment, files, commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aml_train.config.sections.image import CopyConfig, ImageConfig, RunStep
from aml_train.config.sections.image_packages import SECRET_IN_URL, ProtectConfig
from aml_train.image.dockerfile.ofed import DISTRO_PACKAGES, DOCA_PACKAGE, OfedPlan
from aml_train.image.inputs import CONSTRAINTS, ENVIRONMENT, LARGE_PINS, PROTECT, SOLVE, SOLVED, ImageInputs

_WORK: Final = "/tmp/aml-train"  # noqa: S108 - a path in the image, where the build mounts what must not stay
_ENVIRONMENT: Final = "/opt/environment"
_TORCH: Final = "'^(torch|triton|pytorch|nvidia|tensorrt|apex|transformer)'"
"""For grep: the constraints of a base that keep its torch, and what was built for it."""
_NO_DEPENDENCIES: Final = "--no-deps"
SOLVE_ARGUMENT: Final = "AML_TRAIN_SOLVE"
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_BASE_AUTHORITIES: Final = "/usr/local/share/ca-certificates/aml-train-base"
_TRUST: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
"""Variables that name the certificates which Python, pip and curl trust."""
_MISSING: Final = (
    'FNR == 1 { file++ } /-BEGIN CERTIFICATE-/ { found = ""; inside = 1 } '
    r'inside { sub(/\r$/, ""); found = found $0 "\n" } '
    "/-END CERTIFICATE-/ && inside { inside = 0; if (file > 1 && !(found in seen)) { number++; "
    f'name = "{_BASE_AUTHORITIES}/aml-train-base-" number ".crt"; printf "%s", found > name; close(name) }} seen[found] = 1 }}'
)
"""For awk: writes each certificate that the first file lacks into a separate file, as update-ca-certificates(8) wants them."""

_PYTHON: Final = '"$(command -v python || command -v python3)"'
"""Jobs say ``python``; where an image has only ``python3``, that is the one."""

# The configuration in Debian's images empties apt's usual archive folder after each run, so the cached one is elsewhere.
_APT_MOUNTS: Final = """\
    --mount=type=cache,target=/var/cache/aml-train-apt,sharing=locked \\
    --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \\
"""
_APT_INSTALL: Final = """\
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
        -o Dir::Cache::archives=/var/cache/aml-train-apt -o APT::Keep-Downloaded-Packages=true \\
"""

_TARBALL_NEEDS: Final = (
    "ca-certificates",
    "curl",
    "ethtool",
    "gnupg",
    "kmod",
    "lsb-release",
    "lsof",
    "pciutils",
    "perl",
    "udev",
)
"""Commands that the scripts of an MLNX_OFED tarball call."""

_DOCA_SOURCE: Final = "/etc/apt/sources.list.d/aml-train-doca.list"
_DOCA_PREFERENCES: Final = "/etc/apt/preferences.d/aml-train-doca"


def render_dockerfile(
    config: ImageConfig, *, base: str, inputs: ImageInputs | None = None, ofed: OfedPlan | None = None
) -> str:
    """Return the Dockerfile's text.

    Args:
        config: what is wanted; it has a base.
        base: the name after ``FROM``, pinned.
        inputs: the files in the build context, and what else was found out.
        ofed: the drivers to install, as planned.

    Raises:
        ValueError: if a value holds a line break or NUL, which no Dockerfile can express.
    """
    inputs = inputs or ImageInputs()
    trust = _certificates(inputs.files)
    start = "trusting" if trust else "base"
    blocks = [f"FROM {base} AS base"]
    if trust:
        blocks += [f"FROM base AS {start}", trust]
    if config.conda is not None:
        blocks += [f"FROM {start} AS conda", _conda(inputs)]
    blocks += [f"FROM {start}", _labels(base)]
    if config.user is not None:
        blocks.append("USER 0")
    changing = [
        *([_ofed(ofed, inputs.refreshed)] if ofed is not None else []),
        *([_apt_run(sorted(set(config.apt)), inputs.refreshed)] if config.apt else []),
        *([_take_conda()] if config.conda is not None else []),
        *(_pip_run(config, inputs, *step) for step in _pip_steps(config, inputs)),
    ]
    blocks += changing
    if lines := [f"ENV {name}={env_value(value)}" for name, value in sorted(config.env.items())]:
        blocks.append("\n".join(lines))
    blocks += [_copy(number, item, inputs) for number, item in enumerate(config.copy)]
    blocks += [_run(step) for step in config.run]
    if PROTECT in inputs.files and (changing or config.run or config.copy):
        blocks.append(render_protect(config.protect, "base"))
    if config.user is not None:
        rules = ["DL3002"] if config.user.partition(":")[0] in ("root", "0") else []
        rules += [] if config.user.partition(":")[0].isdigit() else ["DL3066"]
        blocks.append((f"# hadolint ignore={','.join(rules)}\n" if rules else "") + f"USER {config.user}")
    return "\n\n".join(blocks) + "\n"


def _labels(base: str) -> str:
    """The base's name and digest (OCI image specification, annotations); no commit."""
    name, _, digest = base.partition("@")
    labels = {"org.opencontainers.image.created-by": "aml-train", "org.opencontainers.image.base.name": name}
    if digest:
        labels["org.opencontainers.image.base.digest"] = digest
    return "LABEL " + " \\\n      ".join(f'{key}="{value}"' for key, value in labels.items())


def _since(refreshed: str | None) -> str:
    """A command that does nothing, and changes when what is installed is too old."""
    return "" if refreshed is None else f'    : "installed since {refreshed}" && \\\n'


def _certificates(files: Mapping[str, bytes]) -> str:
    """Trust certification authorities in addition to what the base trusts.

    update-ca-certificates(8) writes the system's bundle from its own folders, and the variables below point Python, pip and curl to it. So
    everything that the base trusted comes into that bundle, too: its system's bundle as it was, which may have been written by hand, the
    bundles that its variables name, and those of ``certifi`` in Python and in pip.
    """
    names = [name for name in files if name.startswith("ca-certificates/")]
    if not names:
        return ""
    before = f"{_WORK}/trusted.pem"
    return f"""\
COPY ca-certificates/ /usr/local/share/ca-certificates/aml-train/
# hadolint ignore=DL3008
RUN {_APT_MOUNTS.lstrip()}\
    mkdir -p {_WORK} {_BASE_AUTHORITIES} \\
    && if [ -f {_CERTIFICATES} ]; then cp {_CERTIFICATES} {before}; fi \\
    && if ! command -v update-ca-certificates >/dev/null; then \\
        mkdir -p /var/cache/aml-train-apt/partial && apt-get update \\
        && {_APT_INSTALL}            ca-certificates; \\
    fi \\
    && update-ca-certificates \\
    && set -- {_CERTIFICATES} \\
    && {_each_authority(before, 'set -- "$@" "$file"')} \\
    && awk '{_MISSING}' "$@" \\
    && update-ca-certificates \\
    && rm -rf {_WORK}
ENV {_trust(_CERTIFICATES)}"""  # noqa: S608 - it is a Dockerfile


def _each_authority(place: str, command: str) -> str:
    """Return a command for each ``$file`` of certificates that is in *place*, or that the base has its programs trust."""
    certifi = (
        f"$({_PYTHON} -c '{statement}; print(certifi.where())' 2>/dev/null)"
        for statement in ("import certifi", "from pip._vendor import certifi")
    )
    places = " ".join(f'"{one}"' for one in (place, *(f"${name}" for name in _TRUST), *certifi))
    return f"""\
for place in {places}; do \\
        for file in "$place" "$place"/*; do \\
            if [ -n "$place" ] && [ -f "$file" ]; then {command}; fi; \\
        done; \\
    done"""


def _trust(bundle: str) -> str:
    return " \\\n    ".join(f'{name}="{bundle}"' for name in _TRUST)


def _apt_run(packages: Sequence[str], refreshed: str | None = None) -> str:
    """Return a RUN that installs *packages*, to be continued with ``&&``."""
    pinned = all("=" in package for package in packages)
    return (
        ("" if pinned else "# hadolint ignore=DL3008\n")
        + f"RUN {_APT_MOUNTS.lstrip()}"
        + _since(refreshed)
        + "    mkdir -p /var/cache/aml-train-apt/partial \\\n    && apt-get update \\\n    && "
        + _APT_INSTALL
        + words(packages)
    )


def _ofed(plan: OfedPlan, refreshed: str | None) -> str:
    if plan.kind == "distro":
        return _apt_run(DISTRO_PACKAGES, refreshed)
    return _tarball(plan) if plan.kind == "tarball" else _package(plan)


def _tarball(plan: OfedPlan) -> str:
    """Download, check, install and remove in one layer: the file is in no image."""
    return f"""{_apt_run(_TARBALL_NEEDS)} \\
    && mkdir -p {_WORK}/ofed \\
{_download(plan.url, plan.sha256, "ofed.tgz", "MLNX_OFED tarball")} \\
    && tar --extract --gzip --file={_WORK}/ofed.tgz --directory={_WORK}/ofed --strip-components=1 \\
    && DEBIAN_FRONTEND=noninteractive {_WORK}/ofed/mlnxofedinstall \\
        --user-space-only --without-fw-update --all --without-neohost-backend --force \\
    && rm -rf {_WORK}"""


def _package(plan: OfedPlan) -> str:
    """Unpack a package that holds a repository, install from it, and remove it.

    The package is not installed: its scripts would leave a source, a key and some hundred megabytes in the image. Its digest was
    checked, so its repository needs no key. CUDA's repository has another release of the package mft than the one that DOCA's
    packages depend on, so DOCA's is preferred, as in NVIDIA's installation guide.
    """
    return f"""{_apt_run(("ca-certificates", "curl"))} \\
    && mkdir -p {_WORK}/doca \\
{_download(plan.url, plan.sha256, "doca.deb", "doca-host package")} \\
    && dpkg-deb --extract {_WORK}/doca.deb {_WORK}/doca \\
    && rm {_WORK}/doca.deb \\
    && list="$(find {_WORK}/doca/usr/share \\( -name Packages -o -name Packages.gz \\) -print -quit)" \\
    && if [ -z "$list" ]; then \\
        echo "aml-train: error: the doca-host package holds no apt repository" >&2; \\
        echo "aml-train: remedy: Give the address of a doca-host package for the base's distribution: image.ofed.url." >&2; \\
        exit 1; \\
    fi \\
    && echo "deb [trusted=yes] file:${{list%/*}} ./" > {_DOCA_SOURCE} \\
    && printf 'Package: *\\nPin: release l=DOCA-HOST*\\nPin-Priority: 600\\n' > {_DOCA_PREFERENCES} \\
    && apt-get update \\
    && {_APT_INSTALL}        {DOCA_PACKAGE} \\
    && rm -rf {_DOCA_SOURCE} {_DOCA_PREFERENCES} {_WORK}"""


def _download(url: str, sha256: str, name: str, what: str) -> str:
    """Return commands that download a file and check its SHA-256, as parts of a RUN."""
    only = "=https" if url.startswith("https:") else "=http,https"
    return f"""\
    && curl --fail --location --proto {quote(only)} --retry 5 --show-error --silent \\
        --output {_WORK}/{name} {quote(url)} \\
    && found="$(sha256sum {_WORK}/{name})" \\
    && if [ "${{found%% *}}" != {sha256} ]; then \\
        echo "aml-train: error: the {what} is not the expected one: its SHA-256 is" >&2; \\
        echo "aml-train: error:   ${{found%% *}}" >&2; \\
        echo "aml-train: error: instead of" >&2; \\
        echo "aml-train: error:   {sha256}" >&2; \\
        echo "aml-train: remedy: Check image.ofed.url and image.ofed.sha256; a mirror or proxy may serve something else." >&2; \\
        exit 1; \\
    fi"""


def _conda(inputs: ImageInputs) -> str:
    """Make the environment in a separate stage: micromamba stays out of the image."""
    return f"""RUN --mount=type=bind,from={inputs.micromamba},source=/bin/micromamba,target={_WORK}/micromamba \\
    --mount=type=bind,source={ENVIRONMENT},target={_WORK}/{ENVIRONMENT} \\
    --mount=type=cache,target=/var/cache/aml-train-conda,sharing=locked \\
{_since(inputs.refreshed)}    CONDA_PKGS_DIRS=/var/cache/aml-train-conda MAMBA_ROOT_PREFIX={_WORK}/root \\
    {_WORK}/micromamba create --yes --no-rc --prefix {_ENVIRONMENT} --file {_WORK}/{ENVIRONMENT}"""


def _take_conda() -> str:
    return (
        f"COPY --from=conda {_ENVIRONMENT} {_ENVIRONMENT}\n"
        f'ENV PATH="{_ENVIRONMENT}/bin:$PATH" \\\n    CONDA_PREFIX="{_ENVIRONMENT}"'
    )


def _pip_steps(config: ImageConfig, inputs: ImageInputs) -> list[tuple[list[str], list[str]]]:
    """Return arguments and mounts of pip's steps: Azure's packages, large requirements, all of them, packages."""
    azureml = [name if version == "latest" else f"{name}=={version}" for name, version in config.azureml.items()]
    steps: list[tuple[list[str], list[str]]] = [(azureml, [])] if azureml else []
    if inputs.requirements is not None:
        options = ["--require-hashes"] if config.pip.require_hashes else []
        files = [(inputs.requirements, options)]
        if LARGE_PINS in inputs.files:
            files.insert(0, (LARGE_PINS, [*options, _NO_DEPENDENCIES]))
        for file, with_options in files:
            source = file.partition("/")[0]
            mounts = [f"--mount=type=bind,source={source},target={_WORK}/{source}"]
            steps.append(([*with_options, f"--requirement={_WORK}/{file}"], mounts))
    return [*steps, (list(config.pip.packages), [])] if config.pip.packages else steps


def render_solve(config: ImageConfig, *, base: str, inputs: ImageInputs) -> str:
    """Return a Dockerfile that asks the base's pip what the steps of :func:`render_dockerfile` would install.

    Its result is the file :data:`SOLVED`. The build argument makes the step run each time. Empty if there is nothing to ask: pip has no step, or it
    is not the base's own that will run.
    """
    steps = [(words, mounts) for words, mounts in _pip_steps(config, inputs) if _NO_DEPENDENCIES not in words]
    if not steps or config.conda is not None or any(name.startswith("python") for name in config.apt):
        return ""
    script = f"--mount=type=bind,source={SOLVE},target={_WORK}/{SOLVE}"
    arguments = [word for words, _ in steps for word in ("--", *words)]
    mounts = [script, *(mount for _, mounts in steps for mount in mounts)]
    # pip alone asks: what update-ca-certificates(8) does to a whole image takes seconds.
    bundle, own = "/aml-train-trusted.pem", "ca-certificates"
    trust = f"""\
RUN --mount=type=bind,source={own},target={_WORK}/{own} \\
    {{ cat {_CERTIFICATES} || true; {_each_authority(f"{_WORK}/{own}", 'cat "$file" && echo')}; }} >{bundle}
ENV {_trust(bundle)}"""
    return "\n\n".join(
        [
            f"FROM {base} AS solve\n\nUSER 0",
            *([trust] if any(name.startswith(f"{own}/") for name in inputs.files) else []),
            f"ARG {SOLVE_ARGUMENT}",
            _pip_run(config, inputs, arguments, mounts, command=f"-B {_WORK}/{SOLVE} /{SOLVED}"),
            f"FROM scratch\n\nCOPY --from=solve /{SOLVED} /\n",
        ]
    )


def _pip_run(
    config: ImageConfig,
    inputs: ImageInputs,
    arguments: list[str],
    mounts: list[str],
    command: str = "-m pip install --no-warn-script-location",
) -> str:
    """Return one step of pip.

    Pythons of a distribution refuse an installation (PEP 668); inside an image that is ours to change it is wanted, and
    older pips ignore the variable. PIP_CONSTRAINT of the base, as in NGC's images, stays in force with the user's
    constraints: pip adds up what the variable and the option say.
    """
    pip = config.pip
    mounts = ["--mount=type=cache,target=/root/.cache/pip,sharing=locked", *mounts]
    variables = ["PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_ROOT_USER_ACTION=ignore"]
    if CONSTRAINTS in inputs.files:
        mounts.append(f"--mount=type=bind,source={CONSTRAINTS},target={_WORK}/{CONSTRAINTS}")
        arguments = [f"--constraint={_WORK}/{CONSTRAINTS}", *arguments]
    secrets: dict[str, None] = {}
    for variable, urls in (
        ("PIP_INDEX_URL", [pip.index_url] if pip.index_url else []),
        ("PIP_EXTRA_INDEX_URL", list(pip.extra_index_urls)),
    ):
        if urls:
            secrets |= dict.fromkeys(name for url in urls for name in SECRET_IN_URL.findall(url))
            variables.append(f'{variable}="{" ".join(_with_secrets(url) for url in urls)}"')
    mounts += [_secret(name) for name in secrets]
    if pip.netrc is not None:
        mounts.append(f"--mount=type=secret,id={pip.netrc},target=/root/.netrc,required=true")
    keep, drop = "", ""
    if config.constraints == "none":
        variables.append("PIP_CONSTRAINT=")
    elif config.constraints == "torch-only":
        keep = f'    kept="$(mktemp)" && {{ grep -ihE {_TORCH} $PIP_CONSTRAINT /dev/null >"$kept" || true; }} && \\\n'
        variables.append('PIP_CONSTRAINT="$kept"')
        drop = ' \\\n    && rm "$kept"'
    head = " \\\n    ".join(mounts)
    return (
        f"RUN {head} \\\n{_since(inputs.refreshed)}{keep}    "
        + " \\\n    ".join([" ".join(variables[:2]), *variables[2:]])
        + f" \\\n    {_PYTHON} {command} \\\n"
        + words(arguments)
        + drop
    )


def _with_secrets(url: str) -> str:
    """Return *url* for double quotes; the shell reads secrets, so no text has them."""
    check(url)
    parts = SECRET_IN_URL.split(url)
    escaped = [
        part.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") for part in parts
    ]
    return "".join(
        f"$(cat /run/secrets/{part})" if number % 2 else escaped[number] for number, part in enumerate(parts)
    )


def _secret(name: str) -> str:
    return f"--mount=type=secret,id={name},required=true"


def _copy(number: int, item: CopyConfig, inputs: ImageInputs) -> str:
    name = f"copy/{number}"
    check(item.target)
    single = inputs.trees[name].root == item.source.parent
    source = f"{name}/{item.source.name}" if single else f"{name}/"
    target = item.target if single or item.target.endswith("/") else f"{item.target}/"
    return f"COPY {json.dumps([source, target], ensure_ascii=False)}"


def _run(step: RunStep) -> str:
    check(step.command)
    mounts = "".join(f"{_secret(name)} \\\n    " for name in step.secrets)
    return f"RUN {mounts}{step.command}"


def render_protect(protect: ProtectConfig, base: str) -> str:
    """Return the step that fails if a protected package of *base* has changed."""
    allow = f" \\\n{words(('--allow', *protect.allow))}" if protect.allow else ""
    return (
        f"RUN --mount=type=bind,from={base},target={_WORK}/base \\\n"
        f"    --mount=type=bind,source={PROTECT},target={_WORK}/{PROTECT} \\\n"
        f"    if python={_PYTHON}; then \\\n"
        f'        "$python" -B {_WORK}/{PROTECT} {_WORK}/base \\\n{words(protect.packages)}{allow}; \\\n'
        "    fi"
    )


_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def quote(word: str) -> str:
    """Quote *word* for the shell.

    Double quotes where it has single ones: linters do not parse ``'"'"'``.

    Raises:
        ValueError: if it has a line break or NUL.
    """
    check(word)
    if _PLAIN.fullmatch(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", word) + '"'


def words(items: Iterable[str], *, indent: str = "        ") -> str:
    """Return *items* quoted for the shell, one a line, all but the last continued."""
    return " \\\n".join(f"{indent}{quote(item)}" for item in items)


def env_value(value: str) -> str:
    """Quote *value* for ENV.

    Inside double quotes backslash, quote and dollar keep their plain meaning.

    Raises:
        ValueError: if it has a line break or NUL.
    """
    check(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def check(text: str) -> None:
    """Raise ValueError if a Dockerfile cannot express *text*."""
    if any(character in text for character in "\r\n\0"):
        raise ValueError(f"{text!r} has a line break or NUL, which a Dockerfile cannot carry")
