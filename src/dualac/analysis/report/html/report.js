"use strict";
// Draws the charts of a report from the numbers embedded in the page. Plain SVG, no library, no request. All text enters as text.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const state = { axis: "steps", hidden: new Set(), dual: 0 };
const AXES = { steps: "environment steps", updates: "gradient updates", seconds: "wall clock" };

function make(parent, name, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

function format(value, axis = "") {
  if (value === null || !Number.isFinite(value)) return "none";
  if (axis === "seconds") {
    if (value >= 3600) return `${+(value / 3600).toPrecision(3)} h`;
    return value >= 60 ? `${+(value / 60).toPrecision(3)} min` : `${+value.toPrecision(3)} s`;
  }
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)}M`;
  if (size >= 1e4 || (axis && size >= 1e3)) return `${+(value / 1e3).toPrecision(4)}k`;
  return `${+value.toPrecision(3)}`;
}

// Round numbers between two others, about so many; on a logarithmic axis powers of ten.
function ticks(low, high, count, log) {
  if (log) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first + 1) / count));
    const marks = [];
    for (let power = first; power <= last; power += every) marks.push(10 ** power);
    return marks.length > 1 ? marks : [low, high];
  }
  const raw = (high - low) / count, scale = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(factor => factor * scale).find(size => size >= raw) || raw;
  const marks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) marks.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return marks;
}

function bounds(values, log) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  if (log) return low === high ? [low / 2, high * 2] : [low, high];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  return [low, high];
}

function scaler(from, to, log) {
  const place = value => (log ? Math.log(value) : value);
  const [a, b] = from.map(place);
  return value => to[0] + ((place(value) - a) / (b - a)) * (to[1] - to[0]);
}

// A path with a gap wherever there is no number.
function path(xs, ys, x, y, log) {
  let drawn = "", pen = "M";
  for (let i = 0; i < xs.length; i++) {
    const value = ys[i];
    if (value === null || value === undefined || xs[i] === null || (log && value <= 0)) { pen = "M"; continue; }
    drawn += `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  return drawn;
}

function area(xs, low, high, x, y) {
  const whole = xs.map((_, i) => i).filter(i => low[i] !== null && high[i] !== null && xs[i] !== null);
  if (whole.length < 2) return "";
  const out = whole.map(i => `${x(xs[i]).toFixed(1)} ${y(high[i]).toFixed(1)}`);
  const back = whole.reverse().map(i => `${x(xs[i]).toFixed(1)} ${y(low[i]).toFixed(1)}`);
  return `M${out.join("L")}L${back.join("L")}Z`;
}

function frame(figure, height) {
  const box = figure.querySelector(".chart");
  box.replaceChildren();
  const width = Math.max(260, Math.floor(box.clientWidth || 600));
  const svg = make(box, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: "0" });
  svg.setAttribute("aria-label", figure.querySelector("figcaption, h4, h3")?.textContent || "chart");
  return { box, svg, width };
}

function empty(svg, width, height, sentence) {
  make(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "faint" }, sentence);
}

// A chart of lines: {y, log, ref, marks, axis, lines: [{name, group, colour, dash, thin, x, y, low, high}]}
function lineChart(figure, spec) {
  const height = spec.height || 300;
  const { box, svg, width } = frame(figure, height);
  const shown = spec.lines.filter(line => !state.hidden.has(line.agent) && line.x);
  const across = bounds(shown.flatMap(line => line.x)), values = shown.flatMap(line => [line.y, line.low || [], line.high || []].flat());
  const up = bounds(spec.ref === undefined ? values : [...values, spec.ref], spec.log);
  if (!across || !up) {
    const hidden = spec.lines.some(line => state.hidden.has(line.agent));
    return empty(svg, width, height, hidden ? "every algorithm here is hidden" : `no numbers${spec.axis === "steps" ? "" : " on this axis"}`);
  }
  const left = 52, right = width - 20, top = 12, bottom = height - 38;
  const x = scaler(across, [left, right]), y = scaler(up, [bottom, top], spec.log);
  for (const tick of ticks(up[0], up[1], 5, spec.log)) {
    make(svg, "line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "grid" });
    make(svg, "text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick));
  }
  for (const tick of ticks(across[0], across[1], width > 420 ? 6 : 4)) {
    make(svg, "line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4, class: "axis" });
    make(svg, "text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, format(tick, spec.axis));
  }
  make(svg, "line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" });
  make(svg, "text", { x: (left + right) / 2, y: height - 5, "text-anchor": "middle", class: "faint" }, AXES[spec.axis] || spec.axis);
  make(svg, "text", { x: 13, y: (top + bottom) / 2, transform: `rotate(-90 13 ${(top + bottom) / 2})`, "text-anchor": "middle", class: "faint" }, spec.y);
  if (spec.ref !== undefined) make(svg, "line", { x1: left, x2: right, y1: y(spec.ref), y2: y(spec.ref), class: "ref" });
  for (const mark of spec.marks || []) {
    if (mark > across[0] && mark < across[1]) make(svg, "line", { x1: x(mark), x2: x(mark), y1: top, y2: bottom, class: "ref" });
  }
  for (const line of shown) {
    if (line.low) make(svg, "path", { d: area(line.x, line.low, line.high, x, y), fill: line.colour, "fill-opacity": 0.16 });
  }
  for (const line of shown) {
    make(svg, "path", {
      d: path(line.x, line.y, x, y, spec.log), fill: "none", stroke: line.colour, "stroke-dasharray": line.thin ? "" : line.dash || "",
      "stroke-width": line.thin ? 0.8 : 2, "stroke-opacity": line.thin ? 0.45 : 1, "data-line": line.name,
    });
  }
  pointer(box, svg, shown.filter(line => !line.thin), { x, across, left, right, top, bottom, spec });
}

// A crosshair for mouse, finger and arrow keys; what it shows is also said.
function pointer(box, svg, lines, view) {
  const hair = make(svg, "line", { y1: view.top, y2: view.bottom, class: "hair", visibility: "hidden" });
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  box.append(tip);
  const stops = [...new Set(lines.flatMap(line => line.x))].filter(value => value !== null).sort((a, b) => a - b);
  let at = -1;
  function show(value) {
    const place = view.x(value);
    hair.setAttribute("x1", place);
    hair.setAttribute("x2", place);
    hair.setAttribute("visibility", "visible");
    const rows = lines.map(line => {
      let best = -1;
      line.x.forEach((one, i) => { if (one !== null && one <= value * (1 + 1e-9) + 1e-9 && line.y[i] !== null) best = i; });
      return { line, best };
    }).filter(row => row.best >= 0 && row.line.x[row.line.x.length - 1] >= value * (1 - 1e-9)).sort((a, b) => b.line.y[b.best] - a.line.y[a.best]);
    tip.replaceChildren();
    const head = document.createElement("b");
    head.textContent = format(value, view.spec.axis);
    tip.append(head);
    for (const { line, best } of rows.slice(0, 12)) {
      const row = document.createElement("div");
      const key = document.createElement("i");
      key.style.background = line.colour;
      const ends = line.low && line.low[best] !== null ? ` [${format(line.low[best])}, ${format(line.high[best])}]` : "";
      row.append(key, `${line.name} ${format(line.y[best])}${ends}`);
      tip.append(row);
    }
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(place + 12, box.clientWidth - tip.offsetWidth - 4))}px`;
  }
  function hide() { hair.setAttribute("visibility", "hidden"); tip.hidden = true; }
  svg.addEventListener("pointermove", event => {
    const where = event.clientX - svg.getBoundingClientRect().left;
    let near = 0;
    stops.forEach((stop, i) => { if (Math.abs(view.x(stop) - where) < Math.abs(view.x(stops[near]) - where)) near = i; });
    at = near;
    if (stops.length) show(stops[near]);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -stops.length, End: stops.length };
    if (event.key === "Escape") return hide();
    if (!(event.key in moves) || !stops.length) return;
    event.preventDefault();
    at = Math.max(0, Math.min(stops.length - 1, at + moves[event.key]));
    show(stops[at]);
  });
}

// Bars with intervals: {x, rows: [{name, agent, colour, estimate, low, high}]}
function barChart(figure, spec) {
  const rows = spec.rows.filter(row => !state.hidden.has(row.agent));
  const height = 44 + 26 * Math.max(1, rows.length);
  const { svg, width } = frame(figure, height);
  const range = bounds([0, ...rows.flatMap(row => [row.estimate, row.low, row.high])]);
  if (!rows.length || !range) return empty(svg, width, height, "nothing to show");
  const left = Math.min(width * 0.42, 24 + 7 * Math.max(...rows.map(row => Math.min(row.name.length, 40)))), right = width - 60;
  const x = scaler(range, [left, right]), room = Math.floor((left - 12) / 6.6);
  for (const tick of ticks(range[0], range[1], 5)) {
    make(svg, "line", { x1: x(tick), x2: x(tick), y1: 6, y2: height - 30, class: "grid" });
    make(svg, "text", { x: x(tick), y: height - 16, "text-anchor": "middle" }, format(tick));
  }
  rows.forEach((row, i) => {
    const middle = 18 + 26 * i;
    const name = make(svg, "text", { x: left - 8, y: middle + 4, "text-anchor": "end", class: row.strong ? "strong" : "" }, row.name.length > room ? row.name.slice(0, room - 1) + "…" : row.name);
    make(name, "title", {}, row.name);
    if (row.estimate === null) return make(svg, "text", { x: left + 6, y: middle + 4, class: "faint" }, "no score");
    make(svg, "rect", { x: Math.min(x(0), x(row.estimate)), y: middle - 8, width: Math.abs(x(row.estimate) - x(0)), height: 16, fill: row.colour, "data-bar": row.name });
    if (row.low !== null) {
      make(svg, "path", { d: `M${x(row.low)} ${middle}H${x(row.high)}M${x(row.low)} ${middle - 4}V${middle + 4}M${x(row.high)} ${middle - 4}V${middle + 4}`, class: "whisker" });
    }
    make(svg, "text", { x: Math.max(x(row.estimate), row.high === null ? 0 : x(row.high)) + 6, y: middle + 4 }, format(row.estimate));
  });
  make(svg, "text", { x: (left + right) / 2, y: height - 2, "text-anchor": "middle", class: "faint" }, spec.x);
}

// What each figure of the page shows, by its data-chart.
function ink(agent) { const [colour, dash] = data.inks[agent] || ["#7F7F7F", ""]; return { colour, dash, agent }; }

function axisOf(group, steps) { return state.axis === "steps" ? steps : group[state.axis]; }

const CHARTS = {
  efficiency(figure, panel) {
    const lines = panel.groups.map(one => ({ ...ink(one.agent), name: one.name, x: axisOf(one, panel.steps), y: one.iqm, low: one.low, high: one.high }));
    lineChart(figure, { y: "IQM", axis: state.axis, lines, height: 360 });
  },
  bars(figure, panel) {
    const rows = panel.groups.map(one => ({ ...ink(one.agent), name: one.name, ...one.bars[figure.dataset.suite || "all"] }));
    barChart(figure, { x: figure.dataset.suite ? `IQM, ${figure.dataset.suite}` : "IQM, all tasks", rows: rows.sort((a, b) => b.estimate - a.estimate) });
  },
  profile(figure, panel) {
    const lines = panel.groups.filter(one => one.profile).map(one => ({ ...ink(one.agent), name: one.name, x: data.thresholds, y: one.profile[0], low: one.profile[1], high: one.profile[2] }));
    lineChart(figure, { y: "share of runs above", axis: "score", lines, height: 320 });
  },
  task(figure, task) {
    const lines = task.groups.flatMap(one => {
      const x = axisOf(one, task.steps);
      const seeds = one.seeds.map(seed => ({ ...ink(one.agent), name: `${one.name}, seed ${seed.seed}`, x, y: seed.y, thin: true }));
      const own = one.dash === undefined ? {} : { dash: one.dash };
      return [...seeds, { ...ink(one.agent), ...own, name: one.name, x, y: one.mean }];
    });
    lineChart(figure, { y: task.unit, axis: state.axis, lines, height: figure.classList.contains("wide") ? 420 : 230 });
  },
  inside(figure, metric) {
    const group = data.inside[state.dual];
    const lines = group.tasks.filter(task => task.lines[metric.name]).map(task => ({ colour: task.colour, dash: task.dash, name: task.task, ...task.lines[metric.name] }));
    lineChart(figure, { y: metric.title, axis: "steps", log: metric.log, ref: group.refs[metric.name], marks: group.marks, lines, height: 240 });
  },
  overestimation(figure, panel) {
    const lines = panel.lines.map(line => ({ ...ink(line.agent), ...line }));
    lineChart(figure, { y: "|Q| / |G|", axis: "steps", log: true, ref: 1, lines, height: 280 });
  },
  shares(figure, table) {
    barChart(figure, { x: table.x, rows: table.rows.map(row => ({ ...row, agent: "", colour: row.strong ? "#0072B2" : "#56B4E9" })) });
  },
};
const SOURCES = { efficiency: "panels", bars: "panels", profile: "panels", task: "tasks", inside: "metrics", overestimation: "overestimation", shares: "shares" };
const figures = [...document.querySelectorAll("figure[data-chart]")];

function draw(figure) {
  const kind = figure.dataset.chart;
  CHARTS[kind](figure, data[SOURCES[kind]][+figure.dataset.index]);
  figure.dataset.drawn = "yes";
}

// What is on the screen at once, the rest a few at a time.
let round = 0;
function drawAll() {
  const mine = ++round;
  const near = figure => { const box = figure.getBoundingClientRect(); return box.bottom > -200 && box.top < innerHeight + 200; };
  const [first, rest] = [figures.filter(near), figures.filter(figure => !near(figure))];
  first.forEach(draw);
  (function some() {
    if (mine !== round) return;
    rest.splice(0, 4).forEach(draw);
    if (rest.length) setTimeout(some, 0); else document.documentElement.dataset.ready = "yes";
  })();
}

function remember(key, value) { try { sessionStorage.setItem(key, value); } catch { /* a page without storage forgets */ } }
function recall(key) { try { return sessionStorage.getItem(key); } catch { return null; } }

for (const radio of document.querySelectorAll("input[name=axis]")) {
  radio.addEventListener("change", () => { state.axis = radio.value; remember("axis", radio.value); drawAll(); });
  if (recall("axis") === radio.value) { radio.checked = true; state.axis = radio.value; }
}
for (const box of document.querySelectorAll("input[data-agent]")) {
  box.addEventListener("change", () => { state.hidden[box.checked ? "delete" : "add"](box.dataset.agent); drawAll(); });
}
for (const key of document.querySelectorAll("[data-ink]")) {
  const [colour, dash] = data.inks[key.dataset.ink] || ["#7F7F7F", ""];
  const svg = make(key, "svg", { width: 26, height: 10, "aria-hidden": "true" });
  make(svg, "line", { x1: 1, x2: 25, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash });
}
const dual = document.getElementById("dual");
if (dual) dual.addEventListener("change", () => { state.dual = +dual.value; figures.filter(one => one.dataset.chart === "inside").forEach(draw); });

for (const button of document.querySelectorAll("button.enlarge")) {
  button.addEventListener("click", () => {
    const figure = button.closest("figure"), wide = figure.classList.toggle("wide");
    button.setAttribute("aria-pressed", wide);
    draw(figure);
  });
}

const theme = document.getElementById("theme");
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
  theme.textContent = `Theme: ${name || "system"}`;
}
theme.addEventListener("click", () => {
  const next = { "": "light", light: "dark", dark: "" }[document.documentElement.dataset.theme || ""];
  remember("theme", next);
  setTheme(next);
});
setTheme(recall("theme") || "");

for (const head of document.querySelectorAll("table.sortable th button")) {
  head.addEventListener("click", () => {
    const cell = head.closest("th"), table = cell.closest("table"), column = [...cell.parentNode.children].indexOf(cell);
    const down = cell.getAttribute("aria-sort") === "ascending";
    for (const other of cell.parentNode.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.children[column].dataset.value ?? row.children[column].textContent;
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const [one, other] = [key(a), key(b)], numbers = [parseFloat(one), parseFloat(other)];
      return (down ? -1 : 1) * (numbers.every(Number.isFinite) ? numbers[0] - numbers[1] : one.localeCompare(other));
    });
    table.tBodies[0].append(...rows);
  });
}

for (const button of document.querySelectorAll("button[data-download]")) {
  button.addEventListener("click", () => {
    const { name, type, text } = data.downloads[button.dataset.download];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}

addEventListener("beforeprint", () => {
  round++;
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  figures.filter(figure => figure.dataset.drawn !== "yes").forEach(draw);
});
let wait, wideness = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === wideness) return;
  wideness = innerWidth;
  clearTimeout(wait);
  wait = setTimeout(drawAll, 150);
});
drawAll();
