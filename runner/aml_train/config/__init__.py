"""aml-train.yml and the job YAML: parse, check, complain with file and line. Pure."""
