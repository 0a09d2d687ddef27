"""Local images that play curated environments, by patterns of their names."""

from __future__ import annotations

import fnmatch
import json
import threading
from collections.abc import Mapping
from pathlib import Path

from aml_emulator.reading import write_private


class CuratedImages:
    """Which image plays which curated environment. Safe to use from several threads.

    Args:
        given: what the service was started with: images by pattern; the first that fits counts.
        path: where those that come later are kept; they count before the others. None keeps them in memory.
    """

    def __init__(self, given: Mapping[str, str] | None = None, path: Path | None = None) -> None:
        self._given = dict(given or {})
        self._path = path
        self._lock = threading.Lock()
        self._named: dict[str, str] = {}
        if path is not None and path.exists():
            self._named = {str(key): str(value) for key, value in json.loads(path.read_text("utf-8")).items()}

    def image_of(self, name: str, version: str | None) -> str | None:
        """Return the image for an environment, in any case of letters, or None."""
        names = (name.lower(), f"{name}:{version}".lower())
        for pattern, image in self.listed().items():
            if any(fnmatch.fnmatchcase(one, pattern.lower()) for one in names):
                return image
        return None

    def name(self, pattern: str, image: str) -> None:
        """Let *image* play the environments that match *pattern*, as ``NAME[:VERSION]``.

        Raises:
            ValueError: one of them is empty.
        """
        if not pattern.strip() or not image.strip():
            raise ValueError("a pattern and an image are needed")
        with self._lock:
            # The latest counts first.
            self._keep({pattern: image, **{key: value for key, value in self._named.items() if key != pattern}})

    def forget(self) -> None:
        """Forget all that were named; those that the service was started with stay."""
        with self._lock:
            self._keep({})

    def listed(self) -> dict[str, str]:
        """Return all images by pattern, in the order in which they count."""
        return {**self._named, **{key: value for key, value in self._given.items() if key not in self._named}}

    def _keep(self, named: dict[str, str]) -> None:
        self._named = named
        if self._path is not None:
            write_private(self._path, json.dumps(named).encode())
