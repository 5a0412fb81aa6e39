"""The device ``tensorbox`` for calor: programs of convolutions, products and elementwise ops."""
