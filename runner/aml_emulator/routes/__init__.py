"""The HTTP interfaces, by concern. Each module offers `routes(services)`."""
