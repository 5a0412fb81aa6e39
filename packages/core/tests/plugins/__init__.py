"""Tests of how plugins are found and loaded."""
