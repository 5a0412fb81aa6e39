"""What an op must give, as data: domains, oracles, tolerances, and the rows themselves."""
