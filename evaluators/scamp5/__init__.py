"""Running SCAMP-5 programs: on sums of pixels as a proof, on images as the chip would, and what they cost."""
