"""GitHub's contract: workflow commands, files, log, annotations, OIDC, REST."""
