"""Recording: tensors' values, the pending trace, and how ops become nodes of it."""
