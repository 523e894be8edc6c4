"""Trained models of other tools as programs over the Reals."""
