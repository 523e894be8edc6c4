"""Spaces with their data: what the front door knows of a decision problem. A folder each; the registry finds them."""
