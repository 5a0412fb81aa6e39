"""The device ``slate`` for calor: a table of functions over memory that belongs to the device."""
