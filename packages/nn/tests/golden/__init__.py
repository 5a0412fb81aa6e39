"""What PyTorch gave, the rows that it belongs to, and the script that asked for it."""
