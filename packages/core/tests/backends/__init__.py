"""Tests of the backend protocol and of the backends that belong to core."""
