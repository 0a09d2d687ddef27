"""``aml-train init``: a first configuration, with the reason for each guess."""
