"""The deterministic simulation of the product and the services that it uses."""
