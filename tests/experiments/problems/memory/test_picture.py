"""The picture of a placement and the map in a report are drawn from the same rectangles and lines."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from kilotune.experiments.problems.memory.figures.address_map import address_map
from kilotune.experiments.problems.memory.panels import NamedLayout
from kilotune.experiments.problems.memory.picture import placement_svg
from kilotune.spaces.memory.banks import Bank
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.checker import Residence
from kilotune.spaces.memory.instance import Buffer, Instance

SVG = "{http://www.w3.org/2000/svg}"
INSTANCE = Instance("two & three", (Buffer("a<b", 0, 4, 16), Buffer("weights", 1, 3, 8), Buffer("c", 2, 6, 4)))
BANKS = (Bank("fast", 24), Bank("slow"), Bank("empty"))
LAYOUT = MemoryLayout(
    (Residence("a<b", 0, 4, 0, "fast"), Residence("c", 2, 6, 16, "fast"), Residence("weights", 1, 3, 8, "slow"))
)


@pytest.fixture
def picture() -> ET.Element:
    return ET.fromstring(placement_svg(INSTANCE, BANKS, LAYOUT))


def titles(elements: list[ET.Element]) -> list[str | None]:
    return [element.findtext(f"{SVG}title") for element in elements]


def rectangles(picture: ET.Element) -> list[ET.Element]:
    return picture.findall(f"{SVG}rect")[1:]  # the first one is the background


def test_the_same_rectangles_lines_and_colours_as_in_the_report(picture: ET.Element) -> None:
    figure = address_map(INSTANCE, BANKS, NamedLayout("placement", LAYOUT, best=True))
    colours = [colour for trace in figure.data if trace.type == "bar" for colour in trace.marker.color]
    assert [r.get("fill") for r in rectangles(picture)] == colours
    assert titles(rectangles(picture)) == [
        "a<b: 16 bytes, addresses 0 to 16 (excluded), live in [0, 4)",
        "c: 4 bytes, addresses 16 to 20 (excluded), live in [2, 6)",
        "weights: 8 bytes, addresses 8 to 16 (excluded), live in [1, 3)",
    ]
    assert [title for title in titles(picture.findall(f"{SVG}path")) if title] == [
        *("peak: 20 bytes", "largest live sum: 20 bytes", "capacity: 24 bytes"),
        *("peak: 16 bytes", "largest live sum: 8 bytes"),
    ]


def test_places_and_sizes_are_to_scale(picture: ET.Element) -> None:
    first, second, other = (
        {key: float(r.get(key, "nan")) for key in ("x", "y", "width", "height")} for r in rectangles(picture)
    )
    assert first["height"] == pytest.approx(4 * second["height"], abs=0.02)
    assert first["width"] == pytest.approx(second["width"], abs=0.02)
    assert second["x"] - first["x"] == pytest.approx(first["width"] / 2, abs=0.02)
    assert second["y"] + second["height"] == pytest.approx(first["y"], abs=0.02)  # one lies on the other
    assert other["y"] > first["y"] + first["height"]  # in a panel of its own, below
    assert picture.findtext(f"{SVG}text") == "fast, addresses up to 20 of 24"


def test_without_buffers_there_is_a_title() -> None:
    empty = ET.fromstring(placement_svg(Instance("none", ()), (Bank("", 64),), MemoryLayout(())))
    assert empty.findtext(f"{SVG}title") == "none: 0 buffers, peak 0 bytes"
