"""How aml-train signs in. Never interactively."""
