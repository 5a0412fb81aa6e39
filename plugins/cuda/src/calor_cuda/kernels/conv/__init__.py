"""Convolutions by TMA and warp-group instructions."""
