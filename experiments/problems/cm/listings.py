"""What `tune list` shows of networks on computational memory."""

from __future__ import annotations

from kilotune.codegen.cm.hardware import load_hardware, shipped_hardware
from kilotune.experiments.models.onnx_networks import MADE
from kilotune.experiments.problems.cm.problem import SHAPES
from kilotune.experiments.problems.family import ListedRows, ListingRequest


def networks(asked: ListingRequest) -> ListedRows:
    """The networks that need no file."""

    shapes = [{"name": name, "what": "by its shapes, no weights"} for name in SHAPES]
    return shapes + [{"name": name, "what": "ONNX, seeded weights"} for name in MADE]


def hardware(asked: ListingRequest) -> ListedRows:
    """The accelerators that come with kilotune."""

    listed = []
    for name in shipped_hardware():
        hardware = load_hardware(name)
        inner = [link for link in hardware.links if hardware.gmem not in (link.source, link.target)]
        crossbar = f"{hardware.crossbars_per_core} of {hardware.crossbar_rows}x{hardware.crossbar_columns}"
        listed.append(
            {
                "name": name,
                "cores": hardware.cores,
                "links": len(inner),
                "elements_per_tick": max(link.elements_per_tick for link in inner),
                "crossbars": crossbar,
                "sram_bytes": hardware.sram_bytes,
            }
        )
    return listed
