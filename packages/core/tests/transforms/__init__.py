"""Tests of the transforms: gradients, jit, control flow, random numbers."""
