"""The emulator's state: SQLite, and blobs."""
