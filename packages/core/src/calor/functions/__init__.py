"""The public functions on tensors, by theme; ``calor`` re-exports them."""
