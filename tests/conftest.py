"""Fixtures for all tests of the core."""

pytest_plugins = ["tests.controlplane.fixtures"]
