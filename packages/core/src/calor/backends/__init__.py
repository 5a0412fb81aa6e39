"""The backend protocol, and the backends that belong to core: numpy, strict and null."""
