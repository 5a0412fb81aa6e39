"""The server: devices of this machine for clients that have its token."""
