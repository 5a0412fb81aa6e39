"""Finding and loading what other distributions add."""
