"""What is asked for, as a study stores it."""
