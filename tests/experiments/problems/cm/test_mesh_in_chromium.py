"""Names on cores can be read, and lie within the cores."""

from __future__ import annotations

from pathlib import Path

from kilotune.experiments.problems.cm.figures.mesh_figure import mesh_figure
from kilotune.experiments.problems.cm.mesh import CoreMark, Mesh, name_lines
from kilotune.experiments.problems.cm.mesh_svg import mapping_svg
from kilotune.experiments.problems.cm.utilisation import CoreUse
from tests.browser import OpenPage

HALF_A_PAGE = 464
"""Pixels that a mesh has beside another one on a screen of 1280 pixels."""

LEAST_FONT = 9
"""Pixels of letters that can still be read."""

NAMES_IN_FIGURE = """() => {
    const axis = document.querySelector(".js-plotly-plot")._fullLayout.xaxis;
    const side = 0.76 * axis._length / (axis.range[1] - axis.range[0]);
    return [...document.querySelectorAll(".heatmap-label text")].map(text => {
        const lines = [...text.querySelectorAll("tspan.line")].slice(1);  // the first one is blank, behind the number
        const widest = Math.max(...lines.map(line => line.getBoundingClientRect().width));
        return [lines.map(line => line.textContent), parseFloat(getComputedStyle(text).fontSize), widest <= side + 1];
    });
}"""
"""Half a pixel on either side is the border's."""

NAMES_IN_PICTURE = """() => {
    const cores = [...document.querySelectorAll(".core")].map(core => core.getBoundingClientRect());
    return [...document.querySelectorAll("text[fill]")].map(text => {
        const box = text.getBoundingClientRect(), size = parseFloat(getComputedStyle(text).fontSize);
        const within = core => core.left <= box.left && box.right <= core.right && core.top <= box.top && box.bottom <= core.bottom;
        return [text.textContent, size * text.getScreenCTM().a, cores.some(within)];
    });
}"""


def crowded() -> Mesh:
    """Eight by eight cores with names as long as they get."""
    names = ("average", "conv0.0", "conv2.0b/1,0", "inception_3a/1x1")
    cores = tuple(
        CoreMark(
            k,
            (float(k % 8), float(k // 8)),
            CoreUse(k, k, 9, 1.0, 0),
            "100",
            name_lines(names[k % 4]),
            k == 0,
            ("core",),
        )
        for k in range(64)
    )
    return Mesh(8, cores, (), (), 7.0, 7.0)


def test_names_can_be_read(open_page: OpenPage, tmp_path: Path) -> None:
    mesh = crowded()
    page, picture = tmp_path / "figure.html", tmp_path / "mapping.svg"
    figure = mesh_figure(mesh).update_layout(width=HALF_A_PAGE, legend={"orientation": "h"})
    figure.write_html(page)
    picture.write_text(mapping_svg(mesh, "a title"))
    watched = open_page(page)
    watched.page.locator(".heatmap-label text").first.wait_for()
    written = watched.page.evaluate(NAMES_IN_FIGURE)
    assert {tuple(lines) for lines, _, _ in written} == {mark.name for mark in mesh.cores}
    assert len(written) == 64
    watched.goto(picture)
    written += watched.page.evaluate(NAMES_IN_PICTURE)
    assert len(written) == 64 + 64 + 2 * 16 + 2 * 32  # the picture has numbers, and an element a line
    assert [(text, size) for text, size, inside in written if size < LEAST_FONT or not inside] == []
