"""Weights are not downloaded: their host is not one of package registries."""

import re
from urllib.parse import urlparse

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
__all__ = ["HASH_REGEX", "_download_url_to_file", "urlparse"]


def _download_url_to_file(url, dst, hash_prefix, progress):
    del hash_prefix, progress
    print("weights", url, flush=True)
    with open(dst, "wb"):
        pass
