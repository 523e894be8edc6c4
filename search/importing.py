"""Whether an import goes on. Imports nothing, so that the first line of a command can ask."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def is_importing(frame: FrameType | None) -> bool:
    """Whether an import goes on in a frame, or in what called it."""
    while frame is not None:
        if frame.f_code.co_filename in _IMPORTING:
            return True
        frame = frame.f_back
    return False
