"""Programs of the SCAMP-5 focal-plane processor: kernels as sums of pixels, plans, registers, text and C++ macros."""
