"""Where a plan is executed: addresses, registry names, proxy, credentials."""
