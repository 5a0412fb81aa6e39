"""The meaning of ops as data: domains, oracles, tolerances, and the rows."""
