"""Set up a machine for aml-train: ``python3 -m scripts.bootstrap``.

Standard library only, Python 3.11 or later. For each need (:mod:`scripts.bootstrap.needs`) the loop is the same:
probe the facts, let a pure function decide on the next step, carry it out, and probe again until nothing is
left to do or the machine cannot be helped.

======================  =============================================================================
``decisions``           facts → next step; pure, and table-tested
``probes``              the facts, read from the machine
``steps``               what carries a step out; ``environment``, ``daemon``, ``stand_in``, ``services``
``commands``            running programs with a log, retries, errors that show the log's end
``sources``             the hashes that show whether something is up to date
======================  =============================================================================
"""
