"""Load on one local AzureML for a long time, with kills, and its figures."""
