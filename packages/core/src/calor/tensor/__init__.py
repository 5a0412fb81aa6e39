"""The Tensor and its methods."""
