"""Hold the local AzureML against recordings of Azure.

``aml-train parity record`` writes a recording of a workspace; ``python -m parity compare FILE`` has the same conversation with the
local AzureML, and reports what differs; ``python -m parity publish FILE`` puts the result into the page of operations.
"""
