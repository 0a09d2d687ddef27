"""`doctor`: what would make a run fail, on this machine and in the target."""
