"""One study at the front door, from what is asked to what was found."""
