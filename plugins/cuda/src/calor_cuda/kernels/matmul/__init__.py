"""Matrix products by TMA and warp-group instructions."""
