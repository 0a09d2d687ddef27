"""What the service decides."""
