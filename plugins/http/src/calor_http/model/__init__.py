"""The model server: ``python -m calor_http model model.onnx`` answers the Open Inference Protocol.

Requirements: clients of the protocol need no change; everything that arrives is untrusted; for a
small model the way from the socket to the kernels costs less than the kernels of a large one, so a
request is read by one expression, joined with those beside it, and run by the thread that read it.
"""
