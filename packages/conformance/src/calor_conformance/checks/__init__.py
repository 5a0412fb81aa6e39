"""The checks by kind; each module makes checks from rows or from contracts of the protocol."""
