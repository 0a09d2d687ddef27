"""Reduce recorded conversations with Azure to facts (tests/contracts/recorded).

``python -m scripts.recordings --into tests/contracts/recorded/mine.json FILE…`` reads recordings of Azure's
test proxy (``Entries``) and of VCR (``interactions``) and keeps methods, paths, statuses, names of headers,
and shapes: no value that a user, a workspace or a text of the service could be recognized by.
"""
