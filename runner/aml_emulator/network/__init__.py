"""Proxy, certificates, TLS fronts and injected faults."""
