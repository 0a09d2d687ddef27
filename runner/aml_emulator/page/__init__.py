"""The page of the local AzureML: runs, models, assets, computes, for people, read-only and without anything from outside."""
