"""The documentation's site: ``python -m scripts.docs write|build|record``.

======================  =============================================================================
``reference``           the generated pages of docs/reference: keys, events; ``write`` puts them into docs/
``commands``            the generated page of the command line, and that of the action
``site``                the pages of the repository as a tree of the site, and ``build``
``recording``           a terminal's text as a picture of 80 columns; ``record`` runs a command for it
======================  =============================================================================
"""
