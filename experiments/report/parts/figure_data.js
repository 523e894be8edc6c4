// A figure's data as a table: for those who do not see it, and for whoever wants the numbers.
(() => {
  "use strict";
  const MOST_ROWS = 1000;
  const ARRAYS = {
    i1: Int8Array, u1: Uint8Array, u1c: Uint8ClampedArray, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array,
    f4: Float32Array, f8: Float64Array,
  };

  // Plotly for Python writes arrays of numbers as base64, those of two dimensions row by row.
  function values(given) {
    if (given?.bdata === undefined) return Array.isArray(given) ? given : undefined;
    const bytes = Uint8Array.from(atob(given.bdata), (letter) => letter.charCodeAt(0));
    const flat = [...new ARRAYS[given.dtype](bytes.buffer)];
    const width = Number(String(given.shape ?? "").split(",")[1]);
    return width ? Array.from({ length: flat.length / width }, (_, row) => flat.slice(row * width, (row + 1) * width)) : flat;
  }

  // Plotly's texts are a little HTML.
  function plain(text) {
    if (typeof text !== "string" || !/[<&]/.test(text)) return text;
    const parsed = new DOMParser().parseFromString(text.replaceAll(/<br\s*\/?>/g, "; "), "text/html");
    return parsed.body.textContent.trim();
  }

  const titleOf = (axis) => plain(axis?.title?.text ?? axis?.title ?? "");
  const axisOf = (layout, letter, trace) => layout[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`] ?? {};

  // One row a point: series, x, y, where a bar begins, the value of a cell, what hovering says. Places without a meaning,
  // of figures whose axes are hidden, are left out.
  function* rowsOf(trace, layout) {
    if (trace.hoverinfo === "skip") return;
    const [x, y, z] = [values(trace.x), values(trace.y), values(trace.z)];
    const [base, words] = [values(trace.base), values(trace.hovertext) ?? values(trace.text)];
    const [across, up] = ["x", "y"].map((letter) => axisOf(layout, letter, trace).visible !== false);
    const name = plain(trace.name) ?? "";
    if (z) {
      for (const [down, line] of z.entries()) {
        for (const [at, value] of line.entries()) {
          if (value === null || Number.isNaN(value)) continue;
          yield [name, across ? x?.[at] ?? at : null, up ? y?.[down] ?? down : null, null, value, plain(words?.[down]?.[at])];
        }
      }
      return;
    }
    const count = Math.max(x?.length ?? 0, y?.length ?? 0);
    for (let at = 0; at < count; at++) {
      if (x?.[at] === null || y?.[at] === null) continue;
      yield [name, across ? x?.[at] : null, up ? y?.[at] : null, base?.[at], null, plain(words?.[at])];
    }
  }

  function heads(figure) {
    const titles = (letter) => {
      const axes = Object.entries(figure.layout).filter(([key]) => key.startsWith(`${letter}axis`));
      return [...new Set(axes.map(([, axis]) => titleOf(axis)).filter(Boolean))].join(" / ") || letter;
    };
    return ["series", titles("x"), titles("y"), "from", "value", "what is there"];
  }

  const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value ?? ""));

  // `name`: what the table is called. An element that scrolls in itself.
  function figureTable(figure, name) {
    const rows = figure.data.flatMap((trace) => [...rowsOf(trace, figure.layout)]);
    const kept = heads(figure).map((head, at) => ({ head, at })).filter(({ at }) => rows.some((row) => shown(row[at]) !== ""));
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length} rows` : `${rows.length} rows`;
    const top = table.createTHead().insertRow();
    for (const { head } of kept) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = head;
      top.append(cell);
    }
    const body = table.createTBody();
    for (const row of rows.slice(0, MOST_ROWS)) {
      const line = body.insertRow();
      for (const { at } of kept) {
        const cell = line.insertCell();
        cell.textContent = shown(row[at]);
        if (typeof row[at] === "number") cell.className = "number";
      }
    }
    const region = document.createElement("div");
    region.className = "table";
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", name);
    region.append(table);
    return region;
  }

  window.figureTable = figureTable;
})();
