"""The best mapping of a report, in tables."""

from __future__ import annotations

from typing import Any

from kilotune.experiments.presentation.section import Section, Table


def mapping_section(described: dict[str, Any]) -> Section:
    """Stages on cores, streams on routes with their buffers. `described`: as `artefacts.describe` does."""
    stages = [(stage["name"], stage["core"], stage["iterations"], *stage["matrix"]) for stage in described["stages"]]
    streams = [
        (s["name"], " → ".join(map(str, s["route"])) or "same core", s["elements"], s["buffer_packets"])
        for s in described["streams"]
    ]
    return Section(
        "The best mapping",
        (
            Table(("stage", "core", "iterations an image", "rows", "columns"), stages, "Stages on cores."),
            Table(
                ("stream", "route", "elements", "buffer, packets"), streams, "Streams on routes, with their buffers."
            ),
        ),
    )
