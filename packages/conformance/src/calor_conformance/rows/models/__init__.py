"""Models of one node: operators of ONNX with drawn operands, attributes and opsets."""
