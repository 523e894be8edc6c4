"""ONNX import: convolutional networks as a small graph of their own, in floats and in integers."""
