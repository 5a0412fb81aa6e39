"""Functions on functions: gradients, tracing, control flow."""
