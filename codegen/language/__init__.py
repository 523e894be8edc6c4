"""The SeeDot language: from the text of a program to its IR."""
