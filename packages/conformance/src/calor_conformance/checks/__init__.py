"""The checks by kind; each module turns rows, or contracts of the protocol, into questions."""
