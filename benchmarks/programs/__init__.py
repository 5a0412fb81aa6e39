"""Whole steps of the models: by calor and by peers, their launches and their first calls."""
