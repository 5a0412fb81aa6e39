"""The closed table of primitive operations, and the composites written in them."""
