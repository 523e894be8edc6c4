"""Running studies in a browser on this machine."""
