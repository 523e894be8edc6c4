"""One module for each kind of input."""
