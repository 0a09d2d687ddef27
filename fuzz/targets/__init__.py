"""The targets, one module for each: ``TARGET`` is the `fuzz.target.Target`."""
