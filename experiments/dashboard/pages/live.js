// Asks the server what is new and puts it where it belongs: figures keep their zoom, tables their order, links their focus.
(() => {
  "use strict";
  const { address, name } = document.body.dataset;
  if (!address) return;
  const RUNNING_MS = 2000, RESTING_MS = 10000;
  const holder = document.getElementById("sections");
  const notice = document.getElementById("notice");
  let tag = null, drawn = "", wasRunning = null, timer = null, asking = false, heard = null;

  function say(text) {
    if (notice.textContent !== text) notice.textContent = text;
    notice.hidden = !text;
  }

  // ---- sections
  const parse = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };
  const shape = (section) => [...section.children].map((block) => block.tagName).join(" ");
  const written = new WeakMap(); // block -> its HTML as the server wrote it

  function remember(section) {
    for (const block of section.children) written.set(block, block.outerHTML);
  }

  // Ranges of axes that are not as the server wrote them: a reader's zoom, which Plotly drops when the server's own change.
  function zoomOf(plot, layout) {
    const zoom = {};
    for (const [axis, now] of Object.entries(plot.layout ?? {})) {
      if (!/^[xy]axis\d*$/.test(axis) || !now.range) continue;
      const given = layout[axis]?.range;
      const moved = given ? now.autorange === true || given.some((end, at) => end !== now.range[at]) : now.autorange === false;
      if (moved) zoom[`${axis}.range`] = [...now.range];
    }
    return zoom;
  }

  function replaceBlock(old, fresh) {
    const source = fresh.outerHTML;
    if (written.get(old) === source) return;
    if (fresh.className === "row" && old.className === "row" && shape(old) === shape(fresh)) {
      [...fresh.children].forEach((figure, at) => replaceBlock(old.children[at], figure));
      written.set(old, source);
      return;
    }
    if (fresh.tagName === "FIGURE") {
      const [plot, freshPlot] = [old, fresh].map((figure) => figure.querySelector(".plot"));
      const zoom = zoomOf(plot, JSON.parse(old.querySelector("script").textContent).layout);
      old.querySelector("script").textContent = fresh.querySelector("script").textContent;
      old.querySelector("figcaption").firstElementChild.nextSibling.textContent =
        fresh.querySelector("figcaption").firstElementChild.nextSibling.textContent;
      plot.style.cssText = freshPlot.style.cssText;
      window.kilotune.fill(old.querySelector(".data"));
      window.kilotune.redraw(plot);
      if (Object.keys(zoom).length) Plotly.relayout(plot, zoom);
      written.set(old, source);
      return;
    }
    const oldTable = old.querySelector("table"), freshTable = fresh.querySelector("table");
    const heads = (table) => [...table.tHead.rows[0].cells].map((cell) => cell.textContent).join("\n");
    if (oldTable?.takeRows && freshTable && heads(oldTable) === heads(freshTable)) {
      oldTable.takeRows([...freshTable.tBodies[0].rows]);
      written.set(old, source);
      return;
    }
    old.replaceWith(fresh);
    written.set(fresh, source);
    window.kilotune.adopt(fresh.parentElement === null ? document.createElement("div") : wrapped(fresh));
  }

  // `adopt` looks inside of what it is given.
  const wrapped = (block) => ({ querySelectorAll: (selector) => block.querySelectorAll(selector) });

  function showSections(html) {
    const fresh = [...parse(html).children];
    const old = [...holder.children];
    fresh.forEach((section, at) => {
      const there = old[at];
      if (there?.tagName === "SECTION" && shape(there) === shape(section)) {
        [...section.children].forEach((block, index) => replaceBlock(there.children[index], block));
        return;
      }
      remember(section);
      if (there) there.replaceWith(section); else holder.append(section);
      window.kilotune.adopt(section);
    });
    for (const left of old.slice(fresh.length)) left.remove();
    holder.setAttribute("aria-busy", "false");
  }

  // ---- tables of studies: rows that are there already stay, with their links' focus
  function showRows(id, html) {
    const table = document.getElementById(id);
    const there = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.key, row]));
    const fresh = [...parse(`<table><tbody>${html}</tbody></table>`).querySelectorAll("tr")];
    const rows = fresh.map((row) => {
      const old = there.get(row.dataset.key);
      if (!old) return row;
      old.className = row.className;
      [...row.cells].forEach((cell, at) => {
        const place = old.cells[at];
        if (place.outerHTML !== cell.outerHTML) place.replaceWith(cell);
      });
      return old;
    });
    table.takeRows(rows);
  }

  // ---- asking
  function show(news) {
    for (const [fact, text] of Object.entries(news.facts)) {
      for (const place of document.querySelectorAll(`[data-fact="${fact}"]`)) {
        if (place.textContent !== text) place.textContent = text;
      }
    }
    for (const [slot, shown] of Object.entries(news.slots ?? {})) {
      for (const place of document.querySelectorAll(`[data-slot="${slot}"]`)) place.hidden = !shown;
    }
    for (const [id, html] of Object.entries(news.rows ?? {})) showRows(id, html);
    if (news.html != null) showSections(news.html);
    if (news.version != null) drawn = news.version;
    if (name !== undefined) say(wasRunning && !news.running ? `It has ended: ${news.facts.status}.` : "");
    else say("");
    if (news.running) wasRunning = true;
  }

  async function ask() {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    let wait = RUNNING_MS;
    try {
      const query = new URLSearchParams(name === undefined ? {} : { name, drawn });
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(`${address}?${query}`, { headers, cache: "no-store" });
      heard = new Date();
      if (answer.status === 200) {
        const news = await answer.json();
        tag = news.html == null ? answer.headers.get("ETag") : null; // the next question is another one
        show(news);
        document.body.dataset.trials = news.facts.trials ?? "";
        wait = news.running || news.more ? RUNNING_MS : RESTING_MS;
        document.body.dataset.waits = wait;
      } else if (answer.status === 304) {
        wait = Number(document.body.dataset.waits ?? RUNNING_MS);
        if (notice.dataset.gone) say("");
      } else {
        say(answer.status === 404 ? "This is not in the store any more." : `The server answers: ${answer.status} ${answer.statusText}.`);
        wait = RESTING_MS;
      }
      delete notice.dataset.gone;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const since = heard ? `What you see is of ${heard.toLocaleTimeString()}` : "Nothing has been read";
      notice.dataset.gone = "yes";
      say(`The dashboard's server does not answer. ${since}; it is asked again.`);
    } finally {
      asking = false;
      if (!document.hidden) timer = setTimeout(ask, wait);
    }
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) ask();
  });
  ask();
})();
