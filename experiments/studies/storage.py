"""Where studies are kept."""

from __future__ import annotations

import os

import click
from platformdirs.unix import Unix

from kilotune.search.store import Store


def default_storage() -> str:
    """Where studies are kept without --storage: $KILOTUNE_STORAGE, else the user's data folder."""
    chosen = os.environ.get("KILOTUNE_STORAGE")
    return chosen or str(Unix("kilotune").user_data_path / "studies.db")


def open_store(storage: str | None) -> Store:
    """The store of --storage, or of `default_storage`; in a command it is closed with that. StoreError when it cannot be used."""
    store = Store(storage or default_storage())
    command = click.get_current_context(silent=True)
    if command is not None:
        command.call_on_close(store.close)
    return store
