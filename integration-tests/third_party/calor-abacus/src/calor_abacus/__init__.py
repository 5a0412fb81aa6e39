"""A device of three dtypes for calor, in memory of the C library."""
