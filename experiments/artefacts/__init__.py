"""Whatever is written for the user goes through here: whole or not at all, and never over what is not ours."""
