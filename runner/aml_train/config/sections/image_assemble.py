"""``image:``, checked value by value, → :class:`~aml_train.config.sections.image_model.ImageConfig`, and what concerns several keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aml_train.config.sections.image_grammar import RENDERED, SECRET_IN_URL
from aml_train.config.sections.image_model import (
    CondaConfig,
    CopyConfig,
    DockerfileConfig,
    ImageConfig,
    OfedConfig,
    PipConfig,
    ProtectConfig,
    RunConfig,
    SecretConfig,
)
from aml_train.config.yaml.nodes import Faults, MapNode, Mark, find, place, shown
from aml_train.config.yaml.shapes import nearest
from aml_train.config.yaml.source import absolute, kind_of
from aml_train.core.references import ImageRef


def image_config(tree: MapNode, values: Mapping[str, Any], directory: Path, faults: Faults) -> ImageConfig | None:
    """Make ``image`` and check its files; None where there is none or what it is made from is missing.

    Args:
        tree: the whole document.
        values: its checked values.
        directory: the project folder, absolute.
        faults: takes the complaints.
    """
    found = values.get("image")
    if not isinstance(found, dict):
        return None
    return _Maker(tree, found, directory, faults).make()


class _Maker:
    """Makes the parts of one ``image:``."""

    def __init__(self, tree: MapNode, found: dict[str, Any], directory: Path, faults: Faults) -> None:
        self.tree, self.found, self.directory, self.faults = tree, found, directory, faults

    def make(self) -> ImageConfig | None:
        found = self.found
        config = ImageConfig(
            base=found.get("base"),
            ofed=self._ofed(),
            apt=tuple(found.get("apt", ())),
            pip=self._pip(found.get("pip")),
            conda=self._conda(found.get("conda")),
            azureml_mlflow=found.get("azureml-mlflow"),
            azureml_defaults=found.get("azureml-defaults"),
            env=found.get("env", {}),
            copy=self._copies(),
            run=tuple(_run(one) for one in found.get("run", ())),
            user=found.get("user"),
            ca_certificates=self._certificates(),
            secrets=self._secrets(),
            refresh=found.get("refresh"),
            protect=self._protect(),
            dockerfile=self._dockerfile(found.get("dockerfile")),
            repository=found.get("repository"),
            tags=tuple(found.get("tags", ImageConfig.tags)),
            lock=found.get("lock", ImageConfig.lock),
            pull=found.get("pull", ImageConfig.pull),
            platform=found.get("platform"),
            ignored_checks=tuple(found.get("checks", {}).get("ignore", ())),
            where=self._mark("base" if "base" in found else "dockerfile").where,
        )
        self._check_secrets(config)
        if config.dockerfile is not None:
            for key in sorted(self.found.keys() & set(RENDERED)):
                what = f"`image.{key}` and `image.dockerfile` exclude each other"
                why = "nothing is added to an image of your own"
                self.faults.add(self._mark(key), what, why=why, remedy="write it into the Dockerfile")
        return config if (config.base is None) != (config.dockerfile is None) else None

    def _mark(self, *keys: str) -> Mark:
        node = find(self.tree, "image", *keys)
        return node.mark if node is not None else place(self.tree, "image", *keys)

    def _ofed(self) -> OfedConfig | None:
        value = self.found.get("ofed")
        given = {"source": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or given.get("source", "none") == "none":
            return None
        source, mark = given["source"], self._mark("ofed")
        if source == "distro":
            for key in given.keys() - {"source", "os"}:
                what = f"`image.ofed.{key}` has no meaning with the source `distro`"
                why = "the distribution's own packages are taken"
                self.faults.add(self._mark("ofed", key), what, why=why, remedy="delete the key")
        elif find(self.tree, "image", "ofed", "version") is None:
            example = "5.8-2.0.3.0" if source == "mlnx_ofed" else "2.9.1"
            self.faults.add(
                mark,
                f"`image.ofed.version` is missing, which `{source}` needs",
                remedy=f'give it: version: "{example}"',
            )
        for key, only in (("sha256", "mlnx_ofed"), ("key-fingerprint", "doca")):
            if key in given and source not in (only, "distro"):
                what = f"`image.ofed.{key}` has no meaning with the source `{source}`"
                self.faults.add(self._mark("ofed", key), what, why=f"it belongs to `{only}`", remedy="delete the key")
        return OfedConfig(
            source=source,
            version=given.get("version"),
            url=given.get("url"),
            sha256=given.get("sha256"),
            os=given.get("os"),
            key_fingerprint=given["key-fingerprint"].upper() if "key-fingerprint" in given else None,
            where=mark.where,
        )

    def _pip(self, value: Any) -> PipConfig:
        if isinstance(value, list):
            return PipConfig(packages=tuple(value))
        if isinstance(value, str):
            return PipConfig(requirements=self._file("pip", text=value))
        if isinstance(value, dict):
            if value.get("require-hashes") and value.get("packages"):
                what = "`image.pip.packages` and `image.pip.require-hashes` exclude each other"
                remedy = "put the packages into the requirements file, with their hashes"
                self.faults.add(self._mark("pip", "packages"), what, why="a list has no hashes", remedy=remedy)
            return PipConfig(
                requirements=self._file("pip", "requirements", text=value.get("requirements")),
                packages=tuple(value.get("packages", ())),
                constraints=self._file("pip", "constraints", text=value.get("constraints")),
                require_hashes=value.get("require-hashes", False),
                index_url=value.get("index-url"),
                extra_index_urls=tuple(value.get("extra-index-urls", ())),
                netrc=value.get("netrc"),
            )
        return PipConfig()

    def _conda(self, value: Any) -> CondaConfig | None:
        keys, text = (("conda",), value) if isinstance(value, str) else (("conda", "file"), (value or {}).get("file"))
        file = self._file(*keys, text=text)
        if file is None:
            return None
        image: ImageRef | None = value.get("micromamba") if isinstance(value, dict) else None
        return CondaConfig(file=file, micromamba=image) if image is not None else CondaConfig(file=file)

    def _copies(self) -> tuple[CopyConfig, ...]:
        made = []
        for index, item in enumerate(self.found.get("copy", ())):
            path = self._inside(f"image.copy.{index}.from", self._mark("copy"), item.get("from"), ("file", "folder"))
            if path is not None and "to" in item:
                made.append(CopyConfig(source=path, target=item["to"]))
        return tuple(made)

    def _certificates(self) -> tuple[Path, ...]:
        mark = self._mark("ca-certificates")
        paths = (
            self._inside(f"image.ca-certificates.{index}", mark, text, ("file",))
            for index, text in enumerate(self.found.get("ca-certificates", ()))
        )
        return tuple(path for path in paths if path is not None)

    def _secrets(self) -> dict[str, SecretConfig]:
        made = {}
        for name, given in self.found.get("secrets", {}).items():
            file = absolute(self.directory / given["file"]) if "file" in given else None
            source = self._mark("secrets", name, "env" if "env" in given else "file")
            made[name] = SecretConfig(
                env=given.get("env"), file=file, by_option=source.option, where=self._mark("secrets", name).where
            )
        return made

    def _protect(self) -> ProtectConfig:
        given = self.found.get("protect", {})
        allow = tuple(given.get("allow", ()))
        return (
            ProtectConfig(packages=tuple(given["packages"]), allow=allow)
            if "packages" in given
            else ProtectConfig(allow=allow)
        )

    def _dockerfile(self, value: Any) -> DockerfileConfig | None:
        given = {"file": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or "file" not in given:
            return None
        name = "image.dockerfile" if isinstance(value, str) else "image.dockerfile.file"
        file = self._inside(name, self._mark("dockerfile"), given["file"], ("file",))
        context = file.parent if file is not None else self.directory
        if "context" in given:
            mark = self._mark("dockerfile", "context")
            context = self._inside("image.dockerfile.context", mark, given["context"], ("folder",)) or context
        if file is None:
            return None
        return DockerfileConfig(file=file, context=context, target=given.get("target"), args=given.get("args", {}))

    def _check_secrets(self, config: ImageConfig) -> None:
        """Check that what is used is declared."""
        used: list[tuple[Mark, str]] = []
        for key, urls in (
            ("index-url", (config.pip.index_url,)),
            ("extra-index-urls", config.pip.extra_index_urls),
        ):
            used += [(self._mark("pip", key), name) for url in urls if url for name in SECRET_IN_URL.findall(url)]
        if config.pip.netrc is not None:
            used.append((self._mark("pip", "netrc"), config.pip.netrc))
        used += [(self._mark("run"), name) for step in config.run for name in step.secrets]
        for mark, name in used:
            if name not in config.secrets:
                near = nearest(name, tuple(config.secrets))
                remedy = f"did you mean `{near}`?" if near else f"declare it: secrets: {{{shown(name)}: {{env: …}}}}"
                self.faults.add(mark, f"the secret `{shown(name)}` is not declared", remedy=remedy)

    def _file(self, *keys: str, text: str | None) -> Path | None:
        """Check a file that is copied into the build: there, and inside the project."""
        if text is None:
            return None
        name, mark = ".".join(("image", *keys)), self._mark(*keys)
        path = absolute(self.directory / text)
        found, why = kind_of(path)
        if found != "file":
            package = name == "image.pip" and not text.endswith((".txt", ".in")) and "/" not in text
            kind = {"conda": "environment", "constraints": "constraints"}.get(keys[-1], "requirements")
            kind = "environment" if keys[0] == "conda" else kind
            remedy = (
                f"for a package write a list: [{shown(text)}]" if package else f"name {_article(kind)} {kind} file"
            )
            self.faults.add(mark, f"`{name}` names `{shown(text)}`", why=why or f"it is a {found}", remedy=remedy)
            return None
        return self._inside(name, mark, text, ("file",))

    def _inside(self, name: str, mark: Mark, text: str | None, kinds: tuple[str, ...]) -> Path | None:
        """Check a path that the build needs: there, of the right kind, and inside the project."""
        if text is None:
            return None
        path = absolute(self.directory / text)
        found, why = kind_of(path)
        what = f"`{name}` names `{shown(text)}`"
        if found not in kinds:
            self.faults.add(mark, what, why=why or f"it is a {found}", remedy=f"name a {' or a '.join(kinds)}")
            return None
        if not path.resolve().is_relative_to(self.directory.resolve()):
            why = f"it is copied into the image from `{self.directory}`"
            remedy = f"move it into the project's {'folder' if 'file' in kinds else 'tree'}"
            self.faults.add(mark, f"{what}, which lies outside the project", why=why, remedy=remedy)
            return None
        return path


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _run(value: Any) -> RunConfig:
    if isinstance(value, dict):
        return RunConfig(command=value.get("command", "").strip(), secrets=tuple(value.get("secrets", ())))
    return RunConfig(command=str(value).strip())
