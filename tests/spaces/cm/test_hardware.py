"""Hardware files: what is shipped, what topologies link, and what is wrong with a file, in one sentence."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilotune.codegen.cm.hardware import load_hardware, parse_hardware, shipped_hardware
from kilotune.codegen.cm.pipeline import Stage
from kilotune.codegen.cm.topologies import all_to_all, diagonal_mesh, mesh, parallel_prism, ring, torus, tree
from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.problems.cm.networks import chain
from kilotune.spaces.cm.space import CmSpace

GOOD: dict[str, Any] = {
    "name": "three",
    "topology": {"kind": "links", "cores": 3, "links": [{"from": 0, "to": 1}, {"from": 1, "to": 2}, {"from": 2, "to": 0}]},
    "link": {"elements_per_tick": 4, "hop_ticks": 1},
    "crossbar": {"rows": 64, "columns": 32, "per_core": 2},
    "core": {"sram_bytes": 1024, "dpu_operations_per_tick": 16},
    "gmem": {"input_ports": [0], "output_ports": [2], "elements_per_tick": 8, "hop_ticks": 2, "order": "row-major"},
    "element_bytes": 1,
}  # fmt: skip


def test_shipped_files_are_read_and_the_default_is_an_8x8_mesh() -> None:
    assert {"mesh-8x8", "mesh-diagonal-8x8", "ring-64", "all-to-all-64", "5pp-65"} <= set(shipped_hardware())
    for name in shipped_hardware():
        assert load_hardware(name).cores >= 63, "a tree of six levels has that many"
    default = load_hardware(None)
    assert (default.cores, default.core_rows, default.crossbar_columns) == (64, 256, 256)
    assert len(default.links) == 2 * 2 * 8 * 7 + 8


def test_topologies_link_both_ways_and_whom_they_should() -> None:
    for pairs in (all_to_all(5), ring(5), mesh(3, 4), diagonal_mesh(3, 4), parallel_prism(3)):
        assert set(pairs) == {(b, a) for a, b in pairs}
        assert len(set(pairs)) == len(pairs)
        assert all(a != b for a, b in pairs)
    assert len(all_to_all(5)) == 20
    assert len(ring(5)) == 10
    assert len(ring(2)) == 2
    assert {b for a, b in mesh(3, 4) if a == 5} == {1, 4, 6, 9}
    assert {b for a, b in diagonal_mesh(3, 4) if a == 5} == {0, 1, 2, 4, 6, 8, 9, 10}
    assert {b for a, b in parallel_prism(3) if a == 7} == {2, 5, 6, 8, 9, 12}


def test_listed_links_go_one_way_with_widths_of_their_own() -> None:
    described = copy.deepcopy(GOOD)
    described["topology"]["links"][1] |= {"elements_per_tick": 9, "hop_ticks": 3}
    hardware = parse_hardware(described, "three.json")
    assert [(k.source, k.target, k.width, k.hop_ticks) for k in hardware.links] == [
        (0, 1, 4, 1),
        (1, 2, 9, 3),
        (2, 0, 4, 1),
        (3, 0, 8, 2),
        (2, 3, 8, 2),
    ]
    assert hardware.core_rows == 128
    assert hardware.iteration_ticks(Stage("a", "a", 1, 0, 0, 0, 1)) == 1
    assert hardware.iteration_ticks(Stage("a", "a", 1, 0, 0, 17, 1)) == 2


def test_products_take_the_turns_of_bits_and_converters() -> None:
    """Eight bits one at a time, and twenty columns by eight converters: 8 * 3 ticks."""
    described = copy.deepcopy(GOOD)
    described["crossbar"] |= {"input_bits_per_tick": 1, "conversions_per_tick": 8}
    hardware = parse_hardware(described, "three.json")
    matrix = Stage("a", "a", 1, 64, 20, 3, 20)
    assert hardware.iteration_ticks(matrix) == 24
    assert hardware.iteration_ticks(replace(matrix, input_bits=1)) == 3
    assert hardware.iteration_ticks(replace(matrix, dpu_operations=16 * 25)) == 25, "the DPU works meanwhile"
    assert hardware.iteration_ticks(Stage("pool", "pool", 1, 0, 0, 3, 20)) == 1
    described["crossbar"] |= {"inputs_per_tick": 30}
    few = parse_hardware(described, "three.json")
    assert few.iteration_ticks(matrix) == 3 * 24, "64 rows, 30 a tick"
    wide = replace(matrix, crossbar_columns=33)
    assert few.crossbar_ticks(wide) == 3 * 8 * 4, "two crossbars side by side have converters of their own"


def test_matrices_that_are_wider_than_a_crossbar_take_whole_ones() -> None:
    """Two crossbars of 64 x 32 on a core."""
    hardware = parse_hardware(copy.deepcopy(GOOD), "two.json")
    rows = {
        (rows, columns): hardware.rows_taken(Stage("a", "a", 1, rows, columns, 0, 1))
        for rows, columns in ((20, 32), (100, 32), (20, 33), (65, 33), (0, 0))
    }
    assert rows == {(20, 32): 20, (100, 32): 100, (20, 33): 128, (65, 33): 256, (0, 0): 0}


def test_a_torus_is_a_mesh_whose_ends_meet_and_a_tree_halves() -> None:
    assert set(torus(3, 4)) - set(mesh(3, 4)) == {
        pair for a, b in ((0, 3), (4, 7), (8, 11), (0, 8), (1, 9), (2, 10), (3, 11)) for pair in ((a, b), (b, a))
    }
    assert torus(2, 2) == mesh(2, 2)
    assert torus(1, 1) == tree(1) == []
    assert tree(6) == sorted(p for a, b in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2)) for p in ((a, b), (b, a)))


def changed(path: str, value: Any) -> dict[str, Any]:
    described = copy.deepcopy(GOOD)
    *sections, key = path.split(".")
    inner = described
    for section in sections:
        inner = inner[section]
    if value is None:
        del inner[key]
    else:
        inner[key] = value
    return described


@pytest.mark.parametrize(
    ("described", "sentence"),
    [
        (changed("core.sram_bytes", 0), "core.sram_bytes: expected a whole number from 1 to 1099511627776, found 0"),
        (changed("core.sram_bytes", "much"), 'core.sram_bytes: expected a whole number from 1 to 1099511627776, found "much"'),
        (changed("core.sram_bytes", True), "found true"),
        (changed("crossbar.rows", None), "crossbar.rows: expected a value, found none"),
        (changed("gmem", None), "gmem: expected a value, found none"),
        (changed("gmem.input_ports", [7]), "gmem.input_ports: expected a list of different cores from 0 to 2, found [7]"),
        (changed("gmem.order", "spiral"), 'gmem.order: expected one of row-major, column-major, found "spiral"'),
        (changed("topology.kind", "star"), 'topology.kind: expected one of all-to-all, ring, mesh, mesh-diagonal, torus, tree, 5pp, links'),
        (changed("core.srambytes", 5), "core.srambytes: expected one of sram_bytes, dpu_operations_per_tick, stages, found an unknown"),
        (
            changed("topology.links", [{"from": 0, "to": 1}, {"from": 1, "to": 0}]),
            "topology: expected a link that leads to core 2 (a missing link?), found no path from an input port to core 2",
        ),
        (
            changed("topology.links", [{"from": 0, "to": 1}, {"from": 0, "to": 2}]),
            "topology: expected a link that leaves core 1 (a missing link?), found none from core 1 to a port",
        ),
        (
            changed("topology.links", [{"from": 0, "to": 1}, {"from": 0, "to": 1}]),
            "topology.links[1]: expected a link between two cores, listed once, found 0 to 1 a second time",
        ),
        (changed("topology.links", [{"from": 0, "to": 3}]), "topology.links[0].to: expected a core from 0 to 2, found 3"),
        (
            changed("topology.links", [{"from": 0, "to": 1}, {"from": 1, "to": 2}]),
            "topology: expected a path between any two cores, not through GMEM, found none from core 1 to core 0",
        ),
        (
            changed("topology.links", [{"from": 0, "to": 1}, {"from": 1, "to": 2}])
            | {"gmem": GOOD["gmem"] | {"input_ports": [0, 2], "output_ports": [0, 2]}},
            "topology: expected a path between any two cores, not through GMEM, found none from core 1 to core 0",
        ),
        (changed("crossbar.conversions_per_tick", 0), "crossbar.conversions_per_tick: expected a whole number from 1"),
        (changed("tick_ns", "fast"), 'tick_ns: expected a number from 0, found "fast"'),
        (changed("energy", {"cell_pj": 1}), "energy.source: expected a value, found none"),
        (changed("energy", {"source": "guess", "cell_pj": -1}), "energy.cell_pj: expected a number from 0, found -1"),
        (changed("energy", {"source": "guess", "cell": 1}), "energy.cell: expected one of source, cell_pj"),
        (changed("link", {"bits_per_tick": 8, "hop_ticks": 1}), "gmem.bits_per_tick: expected a value, found none"),
        (
            changed("link", {"bits_per_tick": 8, "elements_per_tick": 1, "hop_ticks": 1})
            | {"gmem": {k.replace("elements", "bits"): v for k, v in GOOD["gmem"].items()}},
            "element_bytes: expected one of name, topology, link, crossbar, core, gmem, tick_ns, energy, found an unknown",
        ),
        (changed("link.hop_ticks", 1001), "link.hop_ticks: expected a whole number from 1 to 1000, found 1001"),
        (changed("topology", "mesh"), 'topology: expected an object, found "mesh"'),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_was_expected_and_found(described: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_hardware(described, "three.json")
    assert str(caught.value).startswith("three.json: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_hardware(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text(json.dumps(GOOD)[:40])
    with pytest.raises(InputError, match=r"half\.json:1:\d+: expected JSON, found "):
        load_hardware(str(tmp_path / "half.json"))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"deep\.json: expected an object, found JSON that is nested too deeply"):
        load_hardware(str(tmp_path / "deep.json"))
    with pytest.raises(
        InputError, match=r"expected a hardware file, or one of 5pp-65, all-to-all-64, .*, found neither"
    ):
        load_hardware("mesh-9x9")


def test_a_single_core_has_no_links_to_others() -> None:
    described = copy.deepcopy(GOOD)
    described["topology"] = {"kind": "all-to-all", "cores": 1}
    described["gmem"] |= {"input_ports": [0], "output_ports": [0]}
    space = CmSpace.of(chain(1, 6, channels=4), parse_hardware(described, "one.json"))
    assert space.measure(space.candidate({}, [0])).metrics["ticks_per_image"] >= 36
