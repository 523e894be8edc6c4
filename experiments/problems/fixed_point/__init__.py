"""Fixed-point programs: the spaces seedot and shiftry."""
