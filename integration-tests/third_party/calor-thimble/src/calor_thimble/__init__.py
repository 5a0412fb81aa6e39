"""A device for calor with a C compiler and nothing else."""
