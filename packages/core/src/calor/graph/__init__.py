"""The one intermediate form, and the passes over it."""
