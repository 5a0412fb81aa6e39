"""Mutation testing of the conformance suite: drawing faults, planting them, asking the checks."""
