"""Whether the image's packages or the code have the modules that are imported."""
