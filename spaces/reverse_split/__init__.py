"""The reverse-splitting problem: which pair of partial sums of a convolution to split next (AUKE, Section 3.1)."""
