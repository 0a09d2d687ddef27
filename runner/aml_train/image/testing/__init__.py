"""The user's tests inside the image."""
