"""Attention by TMA and warp-group instructions."""
