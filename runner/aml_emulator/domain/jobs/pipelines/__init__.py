"""Pipeline jobs: their graphs, the jobs of their nodes, and their runs."""
