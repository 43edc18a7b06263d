"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvases = [...document.querySelectorAll(".canvas")];
  const canvas = (name) => canvases.find((div) => div.dataset.figure === name);
  const PAPER_WIDTH = 640;
  const NARROW = 420;
  const MAX_WHISKERS = 500;

  // --- the table: sort by heading, filter by name -----------------------------------------------

  const table = document.getElementById("loadings");

  function sortBy(heading) {
    const headings = [...heading.parentNode.children];
    const column = headings.indexOf(heading);
    const text = heading.dataset.kind === "text";
    const first = text ? "ascending" : "descending";
    const second = text ? "descending" : "ascending";
    const order = heading.getAttribute("aria-sort") === first ? second : first;
    const sign = order === "ascending" ? 1 : -1;
    const compare = text
      ? (a, b) => a.cells[column].textContent.localeCompare(b.cells[column].textContent, "en", { numeric: true })
      : (a, b) => Number(a.cells[column].dataset.v) - Number(b.cells[column].dataset.v);
    headings.forEach((th) => th.setAttribute("aria-sort", th === heading ? order : "none"));
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
  }

  function filterRows(wanted) {
    const needle = wanted.trim().toLocaleLowerCase();
    let found = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.cells[0].textContent.toLocaleLowerCase().includes(needle);
      found += row.hidden ? 0 : 1;
    }
    document.getElementById("count").textContent = needle ? `${found} found.` : "";
  }

  if (table) {
    for (const heading of table.tHead.rows[0].cells) {
      heading.firstElementChild.addEventListener("click", () => sortBy(heading));
    }
    document.getElementById("filter").addEventListener("input", (event) => filterRows(event.target.value));
  }

  // --- colours: roles become those of light, dark or paper --------------------------------------

  function palette() {
    const style = getComputedStyle(root);
    return (role) => style.getPropertyValue("--" + role).trim();
  }

  function painted(value, colour, key = "") {
    if (typeof value === "string") {
      return /color/.test(key) && value.startsWith("@") ? colour(value.slice(1)) : value;
    }
    if (Array.isArray(value)) {
      return /color/.test(key) ? value.map((item) => painted(item, colour, key)) : value;
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, colour, k)]));
    }
    return value;
  }

  function axis(own) {
    return {
      gridcolor: "@grid", linecolor: "@line", zerolinecolor: "@line", tickcolor: "@line",
      automargin: true, tickangle: 0, ...own, title: { standoff: 10, font: { color: "@soft", size: 13 }, ...(own || {}).title },
    };
  }

  function draw(name, figure) {
    const div = canvas(name);
    if (!div) return;
    const printing = root.classList.contains("printing");
    const narrow = !printing && div.clientWidth < NARROW;
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 13, color: "@ink" },
      margin: { l: 10, r: 12, t: 14, b: 10 }, hovermode: "closest", dragmode: false,
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal", font: { color: "@soft" } },
      hoverlabel: { bgcolor: "@surface", bordercolor: "@faint", font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: "@ink" }, align: "left" },
      ...figure.layout,
      xaxis: axis(figure.layout.xaxis), yaxis: axis(figure.layout.yaxis),
      height: figure.height, autosize: !printing,
    };
    const { ticktextNarrow, ...yaxis } = layout.yaxis;
    if (narrow && ticktextNarrow) yaxis.ticktext = ticktextNarrow;
    if (narrow && layout.xaxis.dtick > 0 && layout.xaxis.type !== "log") layout.xaxis.dtick *= 2;
    layout.yaxis = yaxis;
    if (printing) Object.assign(layout, { width: PAPER_WIDTH, height: Math.min(figure.height, figure.paper || 290) });
    div.style.minHeight = `${layout.height}px`;
    const colour = palette();
    const config = { displaylogo: false, displayModeBar: false };
    // Afresh after a change of width: `Plotly.react` leaves legends where they were.
    const width = printing ? "paper" : String(div.clientWidth);
    const fresh = div.dataset.width !== width;
    div.dataset.width = width;
    const traces = figure.data.map((trace) => painted(trace, colour));
    (fresh ? Plotly.newPlot : Plotly.react)(div, traces, painted(layout, colour), config);
    if (fresh && figure.onFresh) figure.onFresh(div);
  }

  // --- choices ----------------------------------------------------------------------------------

  function chooser(form, text, options, chosen, onChange) {
    const label = document.createElement("label");
    const select = document.createElement("select");
    options.forEach(([value, words]) => select.add(new Option(words, value, false, value === chosen)));
    select.addEventListener("change", () => onChange(Number(select.value)));
    label.append(text, select);
    form.append(label);
  }

  function tickBox(form, text, onChange) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => onChange(box.checked));
    label.append(box, text);
    form.append(label);
  }

  const title = (h) => `component ${h + 1}`;
  const titled = (h) => `${title(h)} (${data.shares[h]})`;

  // --- loadings ---------------------------------------------------------------------------------

  const loadings = { component: 0 };

  function drawLoadings() {
    const bars = data.loadings[loadings.component];
    if (!bars) return;
    const sure = bars.std.some((s) => s > 0);
    draw("loadings", {
      height: 90 + 24 * bars.x.length, paper: 420,
      data: [{
        type: "bar", orientation: "h", x: bars.x, y: bars.x.map((_, i) => i), text: bars.text, textposition: "none",
        customdata: bars.std, showlegend: false,
        marker: { color: bars.x.map((x) => (x >= 0 ? "@accent" : "@warm")) },
        error_x: { type: "data", array: bars.std.map((s) => 2 * s), color: "@ink", thickness: 1, width: 3, visible: sure },
        hovertemplate: "%{text}: %{x:.3f}" + (sure ? " ± %{customdata:.3f}" : "") + "<extra></extra>",
      }],
      layout: { xaxis: { title: { text: "loading" }, zeroline: true }, yaxis: bars.axis, bargap: 0.35 },
    });
  }

  function offerLoadings() {
    const form = document.getElementById("loadings-controls");
    if (!form || data.loadings.length < 2) return;
    const options = data.loadings.map((_, h) => [h, titled(h)]);
    chooser(form, "Show", options, 0, (h) => { loadings.component = h; drawLoadings(); });
  }

  // --- scores -----------------------------------------------------------------------------------

  // −1 stands for the order of the samples.
  const scores = { x: 0, y: 1, whiskers: false };
  const column = (h) => (h < 0 ? data.scores.index : data.scores.components[h]);
  const spread = (h, i) => (h < 0 || !data.scores.std ? 0 : data.scores.std[h][i]);
  const short = (value) => (value === null ? "?" : Number(value.toPrecision(3)).toString().replace("-", "\u2212"));

  function describe(i) {
    const s = data.scores;
    const lines = [`<b>${s.names ? s.names[i] : `sample ${s.index[i]}`}</b>`];
    const l = s.labels;
    if (l) lines.push(`${s.labelsName}: ${l.values ? short(l.values[i]) : l.texts ? l.texts[i] : l.groups[l.codes[i]]}`);
    for (const h of new Set([scores.x, scores.y])) {
      if (h >= 0) lines.push(`${title(h)}: ${short(column(h)[i])}` + (s.std ? ` ± ${short(spread(h, i))}` : ""));
    }
    return lines.join("<br>");
  }

  function cloud(rows, extra) {
    const pick = (h) => rows.map((i) => column(h)[i]);
    const n = data.scores.index.length;
    const trace = {
      type: "scatter", mode: "markers", x: pick(scores.x), y: pick(scores.y), customdata: rows,
      text: rows.map(describe), hovertemplate: "%{text}<extra></extra>", ...extra,
      marker: { size: n > 3000 ? 4 : n > 500 ? 6 : 8, opacity: n > 3000 ? 0.55 : 0.8, ...extra.marker },
    };
    if (scores.whiskers) {
      for (const [bar, h] of [["error_x", scores.x], ["error_y", scores.y]]) {
        trace[bar] = { type: "data", array: rows.map((i) => 2 * spread(h, i)), thickness: 0.8, width: 0, color: extra.marker.faint };
      }
    }
    delete trace.marker.faint;
    return trace;
  }

  function clouds() {
    const labels = data.scores.labels;
    const all = data.scores.index.map((_, i) => i);
    if (!labels) return [cloud(all, { showlegend: false, marker: { color: "@g0", faint: "@g0" } })];
    if (labels.values) {
      const scale = [[0, "@g4"], [0.5, "@g6"], [1, "@g5"]];
      const bar = { title: { text: data.scores.labelsName, side: "right" }, thickness: 12, outlinewidth: 0, len: 0.8 };
      return [cloud(all, { showlegend: false, marker: { color: labels.values, colorscale: scale, colorbar: bar, faint: "@faint" } })];
    }
    return labels.groups.map((name, g) =>
      cloud(all.filter((i) => labels.codes[i] === g), { name, showlegend: true, marker: { color: `@g${g}`, faint: `@g${g}` } }));
  }

  function drawScores() {
    if (!data.scores || !canvas("scores")) return;
    const name = (h) => (h < 0 ? "sample, in the order of the data" : titled(h));
    const labels = data.scores.labels;
    const touch = matchMedia("(pointer: coarse)").matches;
    draw("scores", {
      height: canvas("scores").clientWidth < NARROW ? 400 : 540, data: clouds(), paper: 400, onFresh: followPointer,
      layout: {
        xaxis: { title: { text: name(scores.x) }, zeroline: scores.x >= 0 },
        yaxis: { title: { text: name(scores.y) }, zeroline: scores.y >= 0 },
        // Dragging on a touch screen scrolls the page.
        dragmode: touch ? false : "zoom", shapes: [],
        ...(labels && labels.groups ? { legend: { title: { text: data.scores.labelsName + "  " }, orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: "@soft" } } } : {}),
      },
    });
  }

  // A sample's uncertainty, two standard deviations to each side, while it is pointed at.
  function followPointer(div) {
    if (!data.scores.std) return;
    div.on("plotly_hover", (event) => {
      const i = event.points[0].customdata;
      const range = (h) => [-2, 2].map((s) => column(h)[i] + s * spread(h, i));
      const [[x0, x1], [y0, y1]] = [range(scores.x), range(scores.y)];
      const colour = palette();
      Plotly.relayout(div, { shapes: [{ type: "circle", x0, x1, y0, y1, line: { color: colour("ink"), width: 1 }, fillcolor: colour("faint"), opacity: 0.35 }] });
    });
    div.on("plotly_unhover", () => Plotly.relayout(div, { shapes: [] }));
  }

  function offerScores() {
    const form = document.getElementById("scores-controls");
    if (!form || !data.scores) return;
    const many = data.scores.components.length;
    if (many === 1) Object.assign(scores, { x: -1, y: 0 });
    const options = data.scores.components.map((_, h) => [h, titled(h)]);
    if (many > 1) {
      chooser(form, "Across", [...options, [-1, "order of samples"]], scores.x, (h) => { scores.x = h; drawScores(); });
      chooser(form, "Up", options, scores.y, (h) => { scores.y = h; drawScores(); });
    }
    if (data.scores.std && data.scores.index.length <= MAX_WHISKERS) {
      tickBox(form, "uncertainty", (on) => { scores.whiskers = on; drawScores(); });
    }
  }

  // --- all of it --------------------------------------------------------------------------------

  function drawAll() {
    for (const [name, figure] of Object.entries(data.figures)) draw(name, figure);
    drawLoadings();
    drawScores();
  }

  async function inflated(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function start() {
    const script = document.createElement("script");
    script.textContent = await inflated(document.getElementById("plotly").textContent);
    document.head.append(script);
    offerLoadings();
    offerScores();
    drawAll();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    let width = innerWidth, timer = 0;
    addEventListener("resize", () => {
      // Phones change the height of the window while they scroll.
      if (innerWidth === width || root.classList.contains("printing")) return;
      width = innerWidth;
      clearTimeout(timer);
      timer = setTimeout(drawAll, 150);
    });
    const print = (on) => () => { root.classList.toggle("printing", on); drawAll(); };
    addEventListener("beforeprint", print(true));
    addEventListener("afterprint", print(false));
  }

  function giveUp() {
    for (const div of canvases) {
      div.classList.add("asleep");
      div.textContent = "This browser cannot draw the figure; one from 2023 or later can.";
    }
  }

  // Not every browser unfolds a section when a link leads into it.
  addEventListener("hashchange", () => {
    const word = document.getElementById(location.hash.slice(1));
    const folded = word && word.closest("details");
    if (folded) { folded.open = true; word.scrollIntoView(); }
  });
  if (typeof DecompressionStream === "undefined") giveUp();
  else start().then(() => { root.dataset.drawn = "yes"; });
})();
