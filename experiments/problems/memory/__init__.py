"""Placement of buffers: the space memory."""
