"""Ends a build that changed a protected package of its base.

Run in the build, by whatever Python the image has (3.7 or later), as ``python protect.py BASE PATTERN… [--allow PATTERN…]``. BASE is
the base's file system, mounted. The records of pip and dpkg there are compared with those of the image. Its lines on
stderr begin with ``aml-train: error:`` or ``aml-train: remedy:``; :mod:`aml_train.image.build.progress` shows that.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import site
import sys
from pathlib import Path

_DIST = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+?)(?:-py\d+(?:\.\d+)?)?\.(?:dist|egg)-info")


def pip_packages(root: Path, folders: list[str]) -> dict[str, tuple[str, str]]:
    """Return name → (version, digest of files) of distributions.

    They are looked for in *folders* below *root*.
    """
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        here = root / folder.lstrip("/")
        for entry in sorted(here.iterdir()) if here.is_dir() else []:
            match = _DIST.fullmatch(entry.name)
            if match is not None:
                name = re.sub(r"[-_.]+", "-", match.group("name")).lower()
                found.setdefault(name, (match.group("version"), _record(entry / "RECORD")))
    return found


def _record(file: Path) -> str:
    """Return a digest over the hashes of a distribution's files.

    Two builds of one version differ in it.
    """
    if not file.is_file():
        return ""
    lines = [line for line in file.read_bytes().splitlines() if b",sha256=" in line and b".dist-info/" not in line]
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


def dpkg_packages(root: Path) -> dict[str, tuple[str, str]]:
    """Return name → (version, "") of what dpkg has installed."""
    file = root / "var/lib/dpkg/status"
    found = {}
    for paragraph in file.read_text("utf-8", "replace").split("\n\n") if file.is_file() else []:
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = (fields["Version"], "")
    return found


def changes(
    before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]], protected: list[str], allowed: list[str]
) -> list[str]:
    """Return a line for each protected package that is missing or changed."""
    lines = []
    for name in sorted(before):
        if not _matches(name, protected) or _matches(name, allowed):
            continue
        old, record = before[name]
        new, new_record = after.get(name, ("", ""))
        if not new:
            lines.append(f"{name} {old} was removed")
        elif new != old:
            lines.append(f"{name} {old} became {new}")
        elif new_record != record:
            lines.append(f"{name} {old} was replaced by another build of the same version")
    return lines


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern.lower().replace("_", "-")) for pattern in patterns)


def main(arguments: list[str]) -> int:
    """Compare; return 1 and say what changed where something did."""
    base, rest = Path(arguments[0]), arguments[1:]
    split = rest.index("--allow") if "--allow" in rest else len(rest)
    protected, allowed = rest[:split], rest[split + 1 :]
    # sys.path leaves out folders that are gone, with which everything in them went.
    folders = [path for path in dict.fromkeys([*sys.path[1:], *site.getsitepackages()]) if path]
    lines = [
        f"{line} ({manager})"
        for manager, before, after in (
            ("pip", pip_packages(base, folders), pip_packages(Path("/"), folders)),
            ("dpkg", dpkg_packages(base), dpkg_packages(Path("/"))),
        )
        for line in changes(before, after, protected, allowed)
    ]
    if not lines:
        return 0
    names = ", ".join(dict.fromkeys(line.split(" ", 1)[0] for line in lines))
    print("aml-train: error: protected packages of the base have changed:", file=sys.stderr)
    for line in lines:
        print(f"aml-train: error:   {line}", file=sys.stderr)
    print(
        "aml-train: remedy: Ask for versions that go with the base's (pip.constraints helps), or take a base that has the "
        f"wanted ones; to have it all the same: protect: {{allow: [{names}]}}",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
