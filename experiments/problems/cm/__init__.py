"""Networks on computational memory: the space cm."""
