"""Convolution programs for SCAMP-5: the space reverse-split."""
