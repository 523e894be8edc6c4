"""How hard a device's compiler optimises: the -O levels, without the dash."""

from __future__ import annotations

LEVELS = ("Os", "O1", "O2", "O3")
"""What may be asked for; the first one is what the Arduino tools take."""

TRIED_LEVELS = ("Os", "O2", "O3")
"""At what the best program of a search is built and measured as well: what is smallest, and what may be fastest."""
