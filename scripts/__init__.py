"""Set-up and checks of the repository; not installed with the package."""
