"""BuildKit builds: context, secrets, cache, progress."""
