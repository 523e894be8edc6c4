"""The address map draws the placement that the checker accepts: every rectangle of it, and no two of them overlap."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.experiments.presentation.section import Section
from kilotune.experiments.problems.memory.figures.address_map import address_map
from kilotune.experiments.problems.memory.figures.live_profile import StepFunction, live_bytes, used_bytes
from kilotune.experiments.problems.memory.figures.sections import draw
from kilotune.experiments.problems.memory.panels import NamedLayout
from kilotune.search.procedure import run_procedure
from kilotune.search.study import Study
from kilotune.spaces.memory.banks import Bank
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.checker import Residence, check_costs, check_residences
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.procedure import block_allocation
from kilotune.spaces.memory.space import MemorySpace
from tests.experiments.report.spaces.studies import NASTY, figures, said, strings, study_of, tables, trace

MOVING = "id,lower,upper,size\na,0,10,100\nb,0,4,60\nc,0,9,90\nd,4,8,80\ne,5,12,40\nf,8,14,50\n"
"""In 320 bytes the paper's allocator has to move three times."""

BANKED = f"""id,lower,upper,size,banks,constant
{NASTY},0,12,300,,0
weights,0,6,400,ccm flash,1
w2,4,9,260,,1
in,0,3,200,sram ccm,0
a,2,5,256,,0
b,4,8,128,,0
d,7,12,96,ccm,0
out,12,15,64,,0
"""
BANKS = ["sram=1400", "ccm=600:0.5", "flash:0.25:read-only"]

Rectangle = tuple[str, int, int, int, int]
"""Id, lower, upper, offset, size."""


def rectangles(bars: Any) -> list[Rectangle]:
    """As the browser draws them: centre and width across, base and height up."""
    columns = (bars.hovertext, bars.x, bars.width, bars.base, bars.y)
    return [
        (name, int(x - w / 2), int(x + w / 2), int(base), int(y)) for name, x, w, base, y in zip(*columns, strict=True)
    ]


def drawn_together(sections: Sequence[Section]) -> go.Figure:
    """The figures that stand side by side as one: best, then the paper's."""
    beside = figures(sections)
    annotations = [annotation for figure in beside for annotation in figure.layout.annotations]
    return go.Figure([trace for figure in beside for trace in figure.data], {"annotations": annotations})


def maps(figure: go.Figure) -> list[Any]:
    return [t for t in figure.data if t.type == "bar"]


def share_a_byte(one: Rectangle, other: Rectangle) -> bool:
    across = one[1] < other[2] and other[1] < one[2]
    return across and one[3] < other[3] + other[4] and other[3] < one[3] + one[4]


def layouts(study: Study) -> list[MemoryLayout]:
    """Of the best trial and of the paper's allocator."""
    space, best, paper = cast(MemorySpace, study.space), study.front.best, run_procedure(study.space)
    assert best is not None
    assert paper is not None
    return [space.layout(best.assignment), space.layout(paper.assignment)]


def write(folder: Path, text: str) -> str:
    path = folder / "buffers.csv"
    path.write_text(text)
    return str(path)


def test_rectangles_are_the_placement_that_the_checker_accepts(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "memory", "fastgrnn-digits", "exhaustive", 50)
    sections = draw(problem, study)
    figure = drawn_together(sections)
    instance = cast(MemorySpace, study.space).instance
    assert len(maps(figure)) == 2
    for bars, layout in zip(maps(figure), layouts(study), strict=True):
        drawn = rectangles(bars)
        size = {b.id: b.size for b in instance.buffers}
        assert set(drawn) == {(r.id, r.lower, r.upper, r.offset, size[r.id]) for r in layout.residences}
        assert len(drawn) == len(instance.buffers)
        peak = check_residences(instance, [Residence(n, lo, up, at) for n, lo, up, at, _ in drawn])
        assert max(at + size for *_, at, size in drawn) == peak
        assert not any(share_a_byte(one, other) for one, other in itertools.combinations(drawn, 2))
        customs = [(int(c[0]), int(c[1]), int(c[2]), int(c[3]), int(c[4])) for c in bars.customdata]
        assert customs == [(s, at, at + s, lo, up) for _, lo, up, at, s in drawn]
        assert f"addresses up to {peak}" in str(figure.layout.annotations)
        assert f"a peak of {peak} bytes" in said(sections)
    assert [len(maps(each)) for each in figures(sections)] == [1, 1]
    assert len({each.layout[axis].range for each in figures(sections) for axis in ("yaxis",)}) == 1
    assert len({each.layout[axis].range for each in figures(sections) for axis in ("yaxis2",)}) == 1
    live = max(
        sum(b.size for b in instance.buffers if b.lower <= point < b.upper)
        for point in range(max(b.upper for b in instance.buffers))
    )
    levels = [t for t in figure.data if t.name == "largest live sum"]
    assert [set(t.y) for t in levels] == [{live}, {live}]
    assert [set(t.y) for t in figure.data if t.name == "peak"] == [{288}, {320}]
    assert f"{live} bytes: no placement has a lower peak" in said(sections)
    (table,) = tables(sections)
    assert {(r[0], r[1], r[2], r[3], r[4]) for r in table.rows} == {
        (n, s, lo, up, at) for n, lo, up, at, s in rectangles(maps(figure)[0])
    }


def test_moves_are_a_row_a_residence_and_an_arrow(tmp_path: Path) -> None:
    given = write(tmp_path, MOVING)
    problem, study = study_of(tmp_path, "memory", given, "cp", 5, migration_price="0.1", banks=["ram=320"])
    sections = draw(problem, study)
    figure = drawn_together(sections)
    _, paper = layouts(study)
    assert len(paper.migrations) == 3
    assert len(rectangles(maps(figure)[1])) == 9, "three of six buffers are in two places"
    arrows = trace(figure, "moves")
    starts, ends = list(zip(arrows.x, arrows.y, strict=True))[::3], list(zip(arrows.x, arrows.y, strict=True))[1::3]
    size = {b.id: b.size for b in cast(PricedSpace, study.space).instance.buffers}
    assert set(zip(starts, ends, strict=True)) == {
        ((m.point, m.source + size[m.id] / 2), (m.point, m.target + size[m.id] / 2)) for m in paper.migrations
    }
    assert "moves 230 bytes in 3 moves" in said(sections)
    assert {y for t in figure.data if t.name == "capacity" for y in t.y} == {320}


def test_banks_are_panels_and_spilled_constants_are_listed(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "memory", write(tmp_path, BANKED), "cp", 5, banks=BANKS)
    sections = draw(problem, study)
    figure = drawn_together(sections)
    space = cast(PricedSpace, study.space)
    best, _ = layouts(study)
    size = {b.id: b.size for b in space.instance.buffers}
    bill = check_costs(space.instance, space.memory, best.residences)
    titles = [a.text for a in figure.layout.annotations if "best placement" in a.text]
    banks = list(dict.fromkeys(bank.name for bank in space.memory.banks if bill.peak_bytes[bank.name]))
    assert [title.partition(",")[0] for title in titles] == banks
    assert "flash" in banks, "otherwise this test shows nothing"
    panels = [bars for bars, title in zip(maps(figure), _map_titles(figure), strict=True) if "best" in title]
    for bank, bars in zip(banks, panels, strict=True):
        expected = {r.id: r for r in best.residences if r.bank == bank}
        drawn = rectangles(bars)
        assert {name.replace("&lt;", "<").replace("&gt;", ">") for name, *_ in drawn} == set(expected)
        assert max(at + s for *_, at, s in drawn) == bill.peak_bytes[bank]
        for name, lower, upper, offset, _ in drawn:
            own = expected[name.replace("&lt;", "<").replace("&gt;", ">")]
            assert offset == own.offset
            assert (lower, upper) == ((0, 15) if bank == "flash" else (own.lower, own.upper))
    spilled = {r.id for r in best.residences if r.bank == "flash"}
    listed = tables(sections)[0]
    assert spilled <= {row[0] for row in listed.rows}
    assert all(row[1] == size[str(row[0])] for row in listed.rows)
    profile = trace(figures(sections)[0], "live")
    alive = [b for b in space.instance.buffers if b.id not in spilled]
    assert max(profile.y) == max(sum(b.size for b in alive if b.lower <= point < b.upper) for point in range(15))


def _map_titles(figure: go.Figure) -> list[str]:
    return [a.text for a in figure.layout.annotations if "addresses up to" in a.text]


def test_names_are_no_markup(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "memory", write(tmp_path, BANKED), "cp", 2, banks=BANKS)
    texts = [text for figure in figures(draw(problem, study)) for text in strings(figure)]
    assert not any("<script" in text for text in texts)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in texts


@st.composite
def placed(draw_from: st.DrawFn) -> tuple[Instance, list[Residence]]:
    """Buffers of two banks at any address; whether they overlap does not matter to a profile."""
    count = draw_from(st.integers(1, 12))
    buffers, residences = [], []
    for k in range(count):
        lower = draw_from(st.integers(-3, 12))
        upper = lower + draw_from(st.integers(1, 6))
        buffers.append(Buffer(f"b{k}", lower, upper, draw_from(st.integers(0, 40))))
        bank = draw_from(st.sampled_from(("x", "y")))
        residences.append(Residence(f"b{k}", lower, upper, draw_from(st.integers(0, 90)), bank))
    return Instance("random", tuple(buffers)), residences


@given(placed())
def test_profiles_by_brute_force(case: tuple[Instance, list[Residence]]) -> None:
    instance, residences = case
    size = {b.id: b.size for b in instance.buffers}
    live, used = live_bytes(size, residences), used_bytes(size, residences)
    for point in range(-4, 20):
        here = [r for r in residences if r.lower <= point < r.upper]
        assert _at(live, point) == sum(size[r.id] for r in here)
        assert _at(used, point) == sum(
            max((r.offset + size[r.id] for r in here if r.bank == bank), default=0) for bank in ("x", "y")
        )


def _at(function: StepFunction, point: int) -> int:
    before = [int(v) for p, v in zip(function.points, function.values, strict=True) if p <= point]
    return before[-1] if before else 0


def test_the_profile_is_drawn(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "memory", "fastgrnn-digits", "exhaustive", 50)
    figure = drawn_together(draw(problem, study))
    size = {b.id: b.size for b in cast(MemorySpace, study.space).instance.buffers}
    for name, layout in zip(("best placement", "paper's allocator"), layouts(study), strict=True):
        line, expected = trace(figure, f"used, {name}"), used_bytes(size, layout.residences)
        assert (list(line.x), list(line.y)) == (expected.points.tolist(), expected.values.tolist())
        assert line.line.shape == "hv"


def test_one_panel_where_the_papers_placement_is_the_best(tmp_path: Path) -> None:
    given = write(tmp_path, "id,lower,upper,size\na,0,4,16\nb,2,6,16\n")
    problem, study = study_of(tmp_path, "memory", given, "exhaustive", 3)
    figure = drawn_together(draw(problem, study))
    assert len(maps(figure)) == 1
    assert "best placement, the paper's" in said(draw(problem, study))


def test_the_papers_allocator_may_fail(tmp_path: Path) -> None:
    banks = ["sram=700", "ccm=600:0.5", "flash:0.25:read-only"]
    text = BANKED.replace("ccm flash", "").replace("out,", "c,5,10,196,,0\ne,9,14,350,,0\nout,")
    problem, study = study_of(tmp_path, "memory", write(tmp_path, text), "cp", 2, banks=banks)
    sections = draw(problem, study)
    assert "The paper's allocator has no placement: Shiftry's allocator cannot fit" in said(sections)
    assert all("paper" not in title for title in _map_titles(figures(sections)[0]))


def test_a_placement_over_the_capacity_is_the_nearest(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "memory", "fastgrnn-digits", "random", 1, capacity_bytes=288)
    assert not study.front.feasible, "otherwise this test shows nothing"
    assert "No placement found keeps the limits" in said(draw(problem, study))
    assert {y for t in figures(draw(problem, study))[0].data if t.name == "capacity" for y in t.y} == {288}


def test_failures_and_no_buffers(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "memory", "fastgrnn-digits", "exhaustive", 2, fails=True)
    sections = draw(problem, study)
    assert "No trial has a placement. The best one: the machine is on fire" in said(sections)
    figure = drawn_together(sections)
    assert len(maps(figure)) == 1, "the paper's placement needs no trial"
    other = tmp_path / "empty"
    other.mkdir()
    problem, study = study_of(other, "memory", write(other, "id,lower,upper,size\n"), "exhaustive", 1)
    assert "no buffers" in said(draw(problem, study))


def test_many_buffers_are_few_traces() -> None:
    buffers = tuple(Buffer(f"b{k}", k % 2989, k % 2989 + 1 + k % 89, 16 + k % 640) for k in range(4000))
    instance = Instance("many", buffers)
    found = block_allocation(instance)
    figure = address_map(
        instance, (Bank(""),), NamedLayout("best placement", MemoryLayout(found.residences), best=True)
    )
    assert len(figure.data) < 10
    assert len(rectangles(maps(figure)[0])) == 4000
    assert all(len(t.x) <= 2000 for t in figure.data if t.type == "scatter")
    assert len(figure.to_json()) < 1_000_000
    assert sum(text != "" for text in maps(figure)[0].text) <= 40


@pytest.mark.parametrize("price", ["0.5", None])
def test_sort_keys_and_plans_are_drawn_too(tmp_path: Path, price: str | None) -> None:
    options = {} if price is None else {"migration_price": price, "banks": ["ram"]}
    problem, study = study_of(tmp_path, "memory", write(tmp_path, MOVING), "count_tpe", 8, **options)
    figure = drawn_together(draw(problem, study))
    best, _ = layouts(study)
    assert len(rectangles(maps(figure)[0])) == len(best.residences)
