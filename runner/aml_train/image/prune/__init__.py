"""Clean-up of a registry by reachability: inventory, plan and execution."""
