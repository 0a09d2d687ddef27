"""The decisions of the service: no HTTP, and no state but the workspace's."""
