"""Azure Resource Manager and the v2 interface."""
