"""Where studies are kept."""

from __future__ import annotations

import os

from platformdirs.unix import Unix


def default_storage() -> str:
    """Where studies are kept without --storage: $KILOTUNE_STORAGE, else the user's data folder."""
    chosen = os.environ.get("KILOTUNE_STORAGE")
    return chosen or str(Unix("kilotune").user_data_path / "studies.db")
