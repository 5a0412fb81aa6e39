"""The client: the backend whose devices are those of a server."""
