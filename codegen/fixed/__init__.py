"""Fixed-point programs: one definition of what they compute, in integers, as tables of widths and shifts."""
