"""aml-train.yml and the job YAML: parsed and checked, with file and line."""
