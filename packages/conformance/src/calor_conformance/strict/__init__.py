"""The device ``strict:NAME``: another device behind a proxy that checks every call."""
