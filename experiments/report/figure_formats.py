"""What figures can be exported as; apart, for the command line's help reads it and nothing else."""

from __future__ import annotations

FORMATS = ("pdf", "svg", "png")
