"""Fixed-point programs on FPGAs, at the front door."""
