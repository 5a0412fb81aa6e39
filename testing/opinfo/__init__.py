"""Comparison with the operators' database of PyTorch's own tests (OpInfo)."""
