"""The training image: render, address, build, push, and the record of its tests."""
