// Draws figures when they come into view, in the colours of the theme; sorts tables; switches the theme. Knows Plotly and
// figureTable() by name.
(() => {
  "use strict";
  const root = document.documentElement;
  const plots = () => [...document.querySelectorAll(".plot")];
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (systemDark.matches ? "dark" : "light");
  const isNarrow = (width) => width < 560;

  // The style sheet holds the colours; an element of either scheme tells them.
  function colours(scheme) {
    const probe = document.createElement("div");
    probe.style.cssText =
      `color-scheme: ${scheme}; color: var(--ink); background: var(--paper); border: 1px solid var(--grid); ` +
      "outline: 1px solid var(--raised); text-decoration: underline var(--quiet); font-family: var(--plain)";
    document.body.append(probe);
    const style = getComputedStyle(probe);
    const found = {
      ink: style.color, paper: style.backgroundColor, grid: style.borderTopColor, raised: style.outlineColor, quiet: style.textDecorationColor,
      font: style.fontFamily,
    };
    probe.remove();
    return found;
  }

  function template(scheme, width) {
    const { ink, paper, grid, raised, quiet, font } = colours(scheme);
    const narrow = isNarrow(width);
    const axis = {
      gridcolor: grid, zerolinecolor: grid, linecolor: ink, tickcolor: ink, automargin: true, title: { standoff: 10 },
      tickfont: { size: narrow ? 10 : 12 },
    };
    return {
      layout: {
        paper_bgcolor: paper, plot_bgcolor: paper, font: { color: ink, family: font, size: narrow ? 11 : 13 },
        title: {
          font: { size: narrow ? 13 : 15 }, x: 0, xanchor: "left", yref: "container", y: 1, yanchor: "top", automargin: true,
          pad: { t: 6, b: 8 },
        },
        colorway: ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"],
        xaxis: axis, yaxis: axis, hovermode: "closest",
        hoverlabel: { bgcolor: raised, bordercolor: ink, font: { color: ink, family: font, size: 12 }, align: "left" },
        legend: {
          orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)",
        },
        margin: narrow ? { l: 44, r: 12, t: 16, b: 44 } : { l: 64, r: 24, t: 20, b: 52 },
        annotationdefaults: { font: { color: ink } }, shapedefaults: { line: { color: ink } },
        coloraxis: { colorbar: { outlinewidth: 0 } }, modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
      },
    };
  }

  const config = {
    responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"],
  };

  function read(plot) {
    return JSON.parse(document.getElementById(plot.dataset.figure).textContent);
  }

  function draw(plot, scheme = theme(), width = plot.clientWidth) {
    const figure = read(plot);
    plot.dataset.drawn = scheme;
    const drawing = Plotly.react(plot, figure.data, { uirevision: "kept", ...figure.layout, template: template(scheme, width) }, config);
    return drawing.then(() => name(plot));
  }

  // Before it is drawn the whole is an image with a name. Then Plotly's buttons are inside of it, and an image has none: the
  // name is that of the picture alone, in whose layers is no more to be read.
  function name(plot) {
    const [picture, ...layers] = plot.querySelectorAll(".main-svg");
    if (plot.hasAttribute("role")) {
      plot.dataset.called = plot.getAttribute("aria-label");
      plot.dataset.described = plot.getAttribute("aria-describedby");
      for (const attribute of ["role", "aria-label", "aria-describedby"]) plot.removeAttribute(attribute);
    }
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", plot.dataset.called);
    picture.setAttribute("aria-describedby", plot.dataset.described);
    for (const layer of layers) layer.setAttribute("aria-hidden", "true");
  }

  const drawn = () => plots().filter((plot) => plot.dataset.drawn);

  // One figure a task, so that each is seen as soon as it is drawn.
  const waiting = [];
  const drawNext = () => {
    const plot = waiting.shift();
    if (!plot) return;
    requestAnimationFrame(() => setTimeout(drawNext)); // first of all: one that cannot be drawn does not stop the others
    if (plot.isConnected && !plot.dataset.drawn) draw(plot);
  };
  const observer = new IntersectionObserver(
    (entries) => {
      const seen = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
      const idle = !waiting.length;
      waiting.push(...seen);
      for (const plot of seen) observer.unobserve(plot);
      if (idle) drawNext();
    },
    { rootMargin: "300px 0px" },
  );
  addEventListener("beforeprint", () => { for (const plot of plots()) draw(plot, "light", 680); });
  addEventListener("afterprint", redraw);

  function redraw() {
    for (const plot of drawn()) draw(plot);
  }

  // ---- theme
  const toggle = document.getElementById("theme");
  toggle.hidden = false;
  function show(chosen) {
    if (chosen) root.dataset.theme = chosen;
    toggle.setAttribute("aria-pressed", String(theme() === "dark"));
    redraw();
  }
  toggle.addEventListener("click", () => {
    const chosen = theme() === "dark" ? "light" : "dark";
    try { localStorage.setItem("kilotune-theme", chosen); } catch { /* a file may have no storage */ }
    show(chosen);
  });
  systemDark.addEventListener("change", () => show());
  let kept = null;
  try { kept = localStorage.getItem("kilotune-theme"); } catch { /* as above */ }
  show(kept === "dark" || kept === "light" ? kept : undefined);

  // ---- figures as files, always on white
  function offerFile(button) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const plot = document.querySelector(`#${button.dataset.save} .plot`);
      const figure = read(plot);
      const layout = { ...figure.layout, template: template("light", plot.clientWidth) };
      const size = { format: "svg", width: plot.clientWidth, height: plot.clientHeight };
      const link = document.createElement("a");
      link.href = await Plotly.toImage({ data: figure.data, layout, config }, size);
      link.download = `${document.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}-${button.dataset.save}.svg`;
      link.click();
    });
  }

  // ---- figures as tables, written when they are asked for
  function offerTable(details) {
    details.hidden = false;
    details.addEventListener("toggle", () => fill(details));
  }
  function fill(details) {
    details.querySelector(".table")?.remove();
    if (details.open) details.append(window.figureTable(read(details), details.querySelector("summary").textContent));
  }

  // ---- tables: ascending, descending, as written; empty cells last
  const words = new Intl.Collator("en", { numeric: true });
  function compare(a, b) {
    if (a.number !== null && b.number !== null) return a.number - b.number;
    if (a.number !== null || b.number !== null) return a.number !== null ? -1 : 1;
    return words.compare(a.text, b.text);
  }
  function cellOf(row, column) {
    const cell = row.cells[column];
    return { text: cell.textContent, number: "value" in cell.dataset ? Number(cell.dataset.value) : null };
  }
  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    let written = [...body.rows];
    function arrange() {
      const column = heads.findIndex((head) => ["ascending", "descending"].includes(head.getAttribute("aria-sort")));
      if (column < 0) { body.replaceChildren(...written); return; }
      const sign = heads[column].getAttribute("aria-sort") === "ascending" ? 1 : -1;
      const cells = written.map((row) => ({ row, ...cellOf(row, column) }));
      const full = cells.filter((cell) => cell.text !== "").sort((a, b) => sign * compare(a, b));
      body.replaceChildren(...full.map((cell) => cell.row), ...cells.filter((cell) => cell.text === "").map((cell) => cell.row));
    }
    const named = heads.filter((head) => head.tagName === "TH");
    for (const head of named) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const order = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
        for (const other of named) other.setAttribute("aria-sort", other === head ? order : "none");
        arrange();
      });
    }
    table.takeRows = (rows) => { written = [...rows]; arrange(); }; // for pages whose tables change while they are open
  }

  // ---- whatever `root` holds; pages that take in sections later call it again, and `redraw` for a figure that changed
  function adopt(root) {
    for (const plot of root.querySelectorAll(".plot")) observer.observe(plot);
    for (const button of root.querySelectorAll(".save")) offerFile(button);
    for (const details of root.querySelectorAll(".data")) offerTable(details);
    for (const table of root.querySelectorAll("table[data-sortable]")) sortable(table);
  }
  adopt(document);
  window.kilotune = { adopt, fill, redraw: (plot) => { if (plot.dataset.drawn) draw(plot); } };

  // ---- contents: closed on narrow screens, and the section in view marked
  if (matchMedia("(max-width: 60rem)").matches) for (const contents of document.querySelectorAll("nav details")) contents.open = false;
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
  const inView = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting || !links.has(entry.target.id)) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(entry.target.id).setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "0px 0px -75% 0px" },
  );
  for (const section of document.querySelectorAll("main section")) inView.observe(section);
})();
