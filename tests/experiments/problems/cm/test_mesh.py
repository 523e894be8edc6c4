"""The mesh of a report and mapping.svg show the same cores and links, and whatever is changed of them changes in both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import plotly.colors
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.experiments.presentation.palette import NEUTRAL
from kilotune.experiments.problems.cm.figures.mesh_figure import mesh_figure
from kilotune.experiments.problems.cm.mesh import (
    IDLE_LINK,
    LINE_LENGTH,
    LOADS,
    CoreMark,
    LinkArrow,
    Mesh,
    busy_colour,
    load_of,
    mesh_of,
    name_lines,
)
from kilotune.experiments.problems.cm.mesh_svg import mapping_svg
from kilotune.experiments.problems.cm.networks import chain
from kilotune.experiments.problems.cm.utilisation import CoreUse, LinkUse, usage_of
from kilotune.search.candidates import first_candidate
from kilotune.spaces.cm.space import CmSpace
from tests.experiments.problems.cm.shown_mesh import Shown, plotly_shows, rgb, svg_shows

CORES = (
    CoreMark(0, (0.0, 0.0), CoreUse(0, 0, 90, 0.9, 16), "90", ("conv0.", "a&lt;"), True, ("core 0: a&lt;", "90 ticks")),
    CoreMark(1, (1.0, 0.0), None, "", (), False, ("core 1: idle",)),
    CoreMark(2, (0.0, 1.0), None, "", (), False, ("core 2: idle",)),
    CoreMark(3, (1.0, 1.0), CoreUse(3, 1, 30, 0.3, 8), "30", ("fc",), False, ("core 3: fc", "30 ticks")),
)


def arrow(number: int, elements: int, start: tuple[float, float], end: tuple[float, float]) -> LinkArrow:
    """A link of one element a tick, of which 100 are an image's."""
    use = LinkUse(number, number, number + 1, elements, elements, elements / 100, ())
    style = load_of(use.share) if elements else IDLE_LINK
    return LinkArrow(use, style, start, end, elements == 80, (f"link {number}", f"{elements} of them"))


ARROWS = (
    arrow(0, 80, (0.4, 0.11), (0.6, 0.11)),
    arrow(1, 30, (0.89, 0.4), (0.89, 0.6)),
    arrow(2, 0, (0.6, 0.89), (0.4, 0.89)),
)
GRID = Mesh(2, CORES, ARROWS, ((-0.85, 0.0), (1.85, 1.0)), 1.0, 1.0)
MESHES = {"grid": GRID, "ring": dataclasses.replace(GRID, columns=None)}


def both(mesh: Mesh) -> tuple[Shown, Shown]:
    """What the report's figure shows, and what the picture does."""
    return plotly_shows(mesh_figure(mesh)), svg_shows(mapping_svg(mesh, "a title"), mesh.cores[0].place)


def assert_alike(figure: Shown, picture: Shown, undrawn: int = 0) -> None:
    """undrawn: links that a report only says something of, for very many are idle."""
    colours = [(look, picture.cores[at]) for at, look in figure.cores.items()]
    for one, other in colours:
        assert (one is None) == (other is None)
        assert max((abs(a - b) for a, b in zip(one or (), other or (), strict=True)), default=0) <= 1
    assert picture.said <= figure.said
    assert len(figure.said - picture.said) == undrawn
    same = {field.name for field in dataclasses.fields(Shown)} - {"cores", "said"}
    for name in sorted(same):
        assert getattr(figure, name) == getattr(picture, name), name


@pytest.mark.parametrize("lies", MESHES)
def test_both_show_the_same(lies: str) -> None:
    figure, picture = both(without_labels(MESHES[lies]))
    assert_alike(figure, picture)
    assert figure.stars == {(0.5, 0.11)}
    assert figure.outlined == {(0.0, 0.0)}
    assert figure.links == {
        ((0.4, 0.11), (0.6, 0.11), LOADS[3].colour),
        ((0.89, 0.4), (0.89, 0.6), LOADS[1].colour),
        ((0.6, 0.89), (0.4, 0.89), NEUTRAL),
    }
    if lies == "grid":
        assert picture.written == {("90",), ("conv0.", "a&lt;"), ("30",), ("fc",)}
        assert picture.inks == ["#FFFFFF", "#000000"]


def without_labels(mesh: Mesh) -> Mesh:
    """Cores that lie in no grid carry nothing."""
    if mesh.columns is not None:
        return mesh
    return dataclasses.replace(mesh, cores=tuple(dataclasses.replace(mark, number="", name=()) for mark in mesh.cores))


def with_core(**changes: Any) -> Callable[[Mesh], Mesh]:
    return lambda mesh: dataclasses.replace(
        mesh, cores=(dataclasses.replace(mesh.cores[0], **changes), *mesh.cores[1:])
    )


def with_link(**changes: Any) -> Callable[[Mesh], Mesh]:
    return lambda mesh: dataclasses.replace(
        mesh, links=(dataclasses.replace(mesh.links[0], **changes), *mesh.links[1:])
    )


MUTATIONS: dict[type, dict[str, Callable[[Mesh], Mesh]]] = {
    CoreMark: {
        "use": with_core(use=CoreUse(0, 0, 50, 0.5, 16)),
        "number": with_core(number="91"),
        "name": with_core(name=("conv0.", "c")),
        "busiest": with_core(busiest=False),
        "said": with_core(said=("core 0: c",)),
        "place": lambda mesh: dataclasses.replace(
            mesh,
            cores=(
                *(mesh.cores[0], dataclasses.replace(mesh.cores[1], place=(1.0, 1.0)), mesh.cores[2]),
                dataclasses.replace(mesh.cores[3], place=(1.0, 0.0)),
            ),
        ),
    },
    LinkArrow: {
        "style": with_link(style=LOADS[2]),
        "start": with_link(start=(0.3, 0.11)),
        "end": with_link(end=(0.7, 0.11)),
        "busiest": with_link(busiest=False),
        "said": with_link(said=("link 0", "81 of them")),
    },
    Mesh: {
        "cores": with_core(use=None, number="", name=(), busiest=False),
        "links": lambda mesh: dataclasses.replace(mesh, links=mesh.links[:2]),
        "ports": lambda mesh: dataclasses.replace(mesh, ports=mesh.ports[:1]),
    },
}
NOT_SEEN = {CoreMark: {"core"}, LinkArrow: {"use"}, Mesh: {"columns", "width", "height"}}
"""Numbers that only clicks hand over, and the form and extent of the whole."""


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in MUTATIONS.items() for field in fields])
def test_a_change_shows_in_both(kind: type, field: str) -> None:
    before, after = both(GRID), both(MUTATIONS[kind][field](GRID))
    assert_alike(*after)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_every_field_is_changed_once() -> None:
    for kind, fields in MUTATIONS.items():
        assert {field.name for field in dataclasses.fields(kind)} == {*fields, *NOT_SEEN[kind]}


def mesh_on(hardware: str) -> Mesh:
    """Three layers where the search begins."""
    space = CmSpace.of(chain(3, 8), load_hardware(hardware))
    candidate = first_candidate(space)
    lowered, mapping = space.lowered(space.replicas(candidate)), space.mapping(candidate)
    ticks = space.measure(candidate).metrics["ticks_per_image"]
    return mesh_of(lowered, space.hardware, usage_of(lowered, space.hardware, mapping, ticks))


@pytest.mark.parametrize("hardware", ["mesh-8x8", "mesh-16x16"])
def test_a_mapping_is_shown_alike(hardware: str) -> None:
    mesh = mesh_on(hardware)
    assert_alike(*both(mesh), undrawn=len(mesh.links) - sum(len(arrows) for _, arrows in mesh.arrows))


@pytest.mark.parametrize(
    ("hardware", "names", "numbers"), [("mesh-8x8", 3, 3), ("mesh-16x16", 0, 3), ("ring-64", 0, 0)]
)
def test_labels_stand_where_there_is_room(hardware: str, names: int, numbers: int) -> None:
    figure, picture = both(mesh_on(hardware))
    assert figure.written == picture.written
    cores = [mark for mark in mesh_on(hardware).cores if mark.use is not None]
    assert [sum(map(bool, written)) for written in zip(*((m.name, m.number) for m in cores), strict=True)] == [
        names,
        numbers,
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("fc", ("fc",)),
        ("average", ("average",)),
        ("conv0.0a.3", ("conv0.", "0a.3")),
        ("conv2.0b/1,0", ("conv2.", "0b/1,0")),
        ("pointwise", ("poin", "twise")),
        ("inception_3a/1x1", ("…eption", "_3a/1x1")),
    ],
)
def test_names_part_at_signs(name: str, lines: tuple[str, ...]) -> None:
    assert name_lines(name) == lines


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30))
def test_names_fit_and_lose_only_their_beginning(name: str) -> None:
    lines = name_lines(name)
    assert len(lines) <= 2
    assert all(0 < len(line) <= LINE_LENGTH for line in lines)
    shown = "".join(lines)
    assert shown == name or (len(name) > 2 * LINE_LENGTH and name.endswith(shown[1:]))


@pytest.mark.slow
@given(st.floats(0, 1.5))
def test_colours_are_those_of_the_scale(share: float) -> None:
    scale = [list(stop) for stop in mesh_figure(GRID).layout.coloraxis.colorscale]
    expected = rgb(plotly.colors.sample_colorscale(scale, min(share, 1.0))[0])
    assert max(abs(a - b) for a, b in zip(rgb(busy_colour(share)), expected, strict=True)) <= 1
