// regard.draw(element, data, options): any view's data() in an element, again and again.

const BESIDE = 4; // matrices that are shown together; of more, one is picked

const KINDS = {
  heat_map: drawHeatMaps, compare: drawCompare, lines: drawLines, words: drawWords, steps: drawSteps,
  heads: drawHeads, image: drawImage, layers: drawLayers, bars: drawBars, growth: drawGrowth,
};

function panelOf(view, index, title = view.data.matrices[index].name) {
  const matrix = view.data.matrices[index];
  return heatMap(view, {
    m: matrix.shape[0], n: matrix.shape[1], weights: weightsOf(matrix), matrix: index, title,
    rows: matrix.target || view.data.target, columns: matrix.source || view.data.source,
  });
}

const partsOf = (view) => view.data.matrices.map((matrix) => ({
  m: matrix.shape[0], n: matrix.shape[1], weights: weightsOf(matrix), title: matrix.name,
  rows: matrix.target || view.data.target, columns: matrix.source || view.data.source,
}));

// Layer and head, or a name, of the matrix to be shown; nothing where there is nothing to pick.
function picker(view, show, matrices = view.data.matrices) {
  if (matrices.length < 2) return null;
  const go = (index) => {
    view.shown = view.options.matrix = index;
    show(index);
    view.tell("regard:matrix", { index });
  };
  const layers = [...new Set(matrices.map((matrix) => matrix.layer))];
  const heads = [...new Set(matrices.map((matrix) => matrix.head))];
  const whole = layers.length * heads.length === matrices.length && layers.length > 1 && heads.length > 1;
  if (!whole) return el("div", { class: "regard-bar" }, select("matrix", matrices.map((matrix, k) => matrix.name || `matrix ${k + 1}`), view.shown, go));
  const now = { layer: matrices[view.shown].layer, head: matrices[view.shown].head };
  const find = () => go(matrices.findIndex((matrix) => matrix.layer === now.layer && matrix.head === now.head));
  return el("div", { class: "regard-bar" },
    select("layer", layers.map((k) => String(k + 1)), layers.indexOf(now.layer), (k) => { now.layer = layers[k]; find(); }),
    select("head", heads.map((k) => String(k + 1)), heads.indexOf(now.head), (k) => { now.head = heads[k]; find(); }));
}

function drawHeatMaps(view) {
  const { matrices } = view.data;
  if (matrices.length <= BESIDE) return beside(view, matrices.map((_, index) => panelOf(view, index)));
  const holder = el("div");
  const show = (index) => {
    const part = panelOf(view, index);
    holder.replaceChildren(part.node);
    part.begin();
  };
  return { node: el("div", {}, picker(view, show), holder), begin: () => show(view.shown), parts: () => partsOf(view) };
}

// Panels next to each other; the cursor of one is in all of the same size.
function beside(view, panels) {
  for (const panel of panels) panel.grid.twins = panels.filter((p) => p.m === panel.m && p.n === panel.n).map((p) => p.grid);
  const node = el("div", { class: "regard-beside" }, ...panels.map((panel) => panel.node));
  return { node, begin: () => panels.forEach((panel) => panel.begin()), parts: () => panels };
}

function drawCompare(view) {
  const { matrices, group, distance } = view.data;
  const holder = el("div");
  let current = null;
  const show = (pair) => {
    const panels = Array.from({ length: group }, (_, k) => panelOf(view, pair * group + k));
    current = beside(view, panels);
    const how = distance && distance.length > 1 ? el("p", { class: "regard-small" }, `They differ by ${number(distance[pair])} on average: ½ Σ |p − q| of each row; 0 is the same, 1 is nothing in common.`) : null;
    holder.replaceChildren(current.node, ...(how ? [how] : []));
    current.begin();
  };
  const pairs = Array.from({ length: matrices.length / group }, (_, pair) => ({ ...matrices[pair * group], name: view.data.pairs[pair] }));
  view.shown = Math.min(view.shown, pairs.length - 1);
  return { node: el("div", {}, picker(view, show, pairs), holder), begin: () => show(view.shown), parts: () => current.parts() };
}

function asSets(selected) {
  const sides = Array.isArray(selected) ? { source: selected } : selected || {};
  return { source: new Set(sides.source || []), target: new Set(sides.target || []), layer: new Set() };
}

const standing = new Map(); // what is drawn where, to be drawn again when the scheme changes

function draw(element, data, options = {}) {
  if (!KINDS[data.kind]) throw new Error(`regard.draw knows no kind "${data.kind}"; known: ${Object.keys(KINDS).join(", ")}`);
  const tip = new Tooltip();
  const tell = (name, detail) => element.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
  const last = data.matrices ? data.matrices.length - 1 : 0;
  const view = { data, options: { ...options }, tip, tell, selected: asSets(options.selected), shown: clamp(options.matrix || 0, 0, last) };
  const drawn = KINDS[data.kind](view);
  const caption = el("figcaption", {}, data.caption ? el("p", { dir: "auto" }, data.caption) : null, data.note ? el("p", { class: "regard-note" }, data.note) : null);
  const figure = el("figure", { class: "regard", "data-kind": data.kind },
    data.title ? el("h2", { dir: "auto" }, data.title) : null, drawn.node, legend(view), caption, tables(view, drawn.parts), tip.node, tip.spoken);
  const before = whereabouts(element);
  element.replaceChildren(figure);
  drawn.begin();
  before();
  for (const other of standing.keys()) if (!other.isConnected) standing.delete(other);
  standing.set(element, view);
}

// What a reader has opened and where the focus is, to be brought back in what is drawn next: the focus on the same
// word, or on the element of the same kind and number; of a grid also on its cell.
function whereabouts(element) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const open = Boolean(element.querySelector("details.regard-table[open]"));
  let kind = null, number = 0;
  if (focused) {
    const { side, index } = focused.dataset;
    kind = side ? `[data-side="${side}"][data-index="${index}"]` : focused.tagName + [...focused.classList].map((name) => `.${name}`).join("");
    number = [...element.querySelectorAll(kind)].indexOf(focused);
  }
  return () => {
    if (open) element.querySelector("details.regard-table").open = true;
    const found = kind && element.querySelectorAll(kind)[number];
    if (!found) return;
    found.focus({ preventScroll: true });
    const at = focused.grid?.at;
    if (at && found.grid) found.grid.go(Math.min(at.i, found.grid.spec.m - 1), Math.min(at.j, found.grid.spec.n - 1));
  };
}

// The ramp with its ends, what is not on it, and how words are marked that the model does not know.
function legend(view) {
  const mark = `regard-word regard-unknown${["words", "steps"].includes(view.data.kind) ? " regard-boxed" : ""}`;
  const parts = [...rampLegend(view), ...(view.data.unknown?.length
    ? [el("span", {}, el("span", { class: mark, "aria-hidden": "true" }, "word"), ` ${UNKNOWN}`)] : [])];
  return parts.length ? el("div", { class: "regard-legend" }, ...parts) : null;
}

function rampLegend(view) {
  const { data } = view;
  if (!data.matrices || data.kind === "lines") return [];
  const ramp = rampOf(data);
  const strip = (from, to) => {
    const sheet = el("canvas", { class: "regard-strip", width: 128, height: 1, "aria-hidden": "true" });
    const values = Float32Array.from({ length: 128 }, (_, k) => from + ((to - from) * (k + 0.5)) / 128);
    sheet.getContext("2d").putImageData(coloured(values, 128, 0, 1, 0, 128, ramp), 0, 0);
    return sheet;
  };
  const signed = data.matrices.some((matrix) => matrix.signed);
  const text = data.kind === "words" || data.kind === "steps"; // the rule of `place`
  const n = data.source.length;
  const line = (t) => styled(el("i"), { left: `${100 * (signed ? (t + 1) / 2 : t)}%` });
  return [
    ...(isBlack(view) ? [] : [el("span", { class: "regard-nothing", "aria-hidden": "true" }), el("span", {}, "exactly 0")]),
    el("span", {}, signed ? number(-data.most) : isBlack(view) ? "0" : "> 0"),
    el("span", { class: "regard-ramp", "aria-hidden": "true" }, strip(signed ? -data.most : 0, data.most), ...(text ? [line(EQUAL)] : []), ...(text && signed ? [line(-EQUAL)] : [])),
    el("span", {}, number(data.most)),
    ...(text ? [el("span", {}, `share of the ${data.shares ? "scores" : "weight"}; the line is an equal share, 1/${n} = ${number(1 / n)}`)] : []),
  ];
}

darkScheme.addEventListener("change", () => {
  for (const [element, view] of standing) if (element.isConnected) draw(element, view.data, view.options);
});
