"""Azure's adapters: sign-in, workspace, registry, computes, storage."""
