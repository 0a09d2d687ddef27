"""``aml-train init``: a first configuration from what a repository holds, with the reason for every guess."""
