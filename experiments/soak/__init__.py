"""Kills at random moments: whether studies keep all that they reported, and end with the trials of an undisturbed run."""
