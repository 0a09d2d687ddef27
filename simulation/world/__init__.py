"""The simulated world: services, computes, builder and clients in one process."""
