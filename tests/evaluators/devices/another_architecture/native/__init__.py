"""The machine that the tests run on, as if it were a microcontroller: what a new architecture's folder holds."""
