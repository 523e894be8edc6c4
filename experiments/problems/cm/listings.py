"""What `tune list` shows of networks on computational memory."""

from __future__ import annotations

from kilotune.codegen.cm.hardware import load_hardware, shipped_hardware
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.topology import crossbar_weights, learned_layers, multiply_accumulates
from kilotune.experiments.models.onnx_networks import MADE
from kilotune.experiments.problems.cm.networks import LAYERS, weightless
from kilotune.experiments.problems.family import ListedRows, ListingRequest


def networks(asked: ListingRequest) -> ListedRows:
    """The networks that need no file."""
    rows = [(weightless(name), name, "by its layers, no weights") for name in LAYERS]
    rows += [(import_model(make(), name), name, "ONNX, seeded weights") for name, make in MADE.items()]
    return [
        {
            "name": name,
            "what": what,
            "image": "x".join(map(str, graph.shapes[graph.input])),
            "matrices": len(learned_layers(graph)),
            "weights": crossbar_weights(graph),
            "multiply_accumulates": multiply_accumulates(graph),
        }
        for graph, name, what in rows
    ]


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
                "per_tick": f"{max(link.width for link in inner)} {hardware.unit}",
                "crossbars": crossbar,
                "sram_bytes": hardware.sram_bytes,
            }
        )
    return listed
