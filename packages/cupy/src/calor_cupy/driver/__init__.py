"""Memory, queues, exchange and collectives of GPUs, by CuPy's driver functions (``protocol``)."""
