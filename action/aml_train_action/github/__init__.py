"""GitHub's contract: commands, files, log, state, OIDC."""
