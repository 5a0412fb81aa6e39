"""Servers of devices and of models for a long time, under kills, full disks and many clients."""
