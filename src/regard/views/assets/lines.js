// Two sentences, and lines between their words as strong as the weights. A word under the pointer, or with the
// focus, keeps only its own lines.

const LINES = 4000; // the strongest of them; what is left out is said
const ROW = 26;

function drawLines(view) {
  const { data } = view;
  const holder = el("div");
  const show = (index) => holder.replaceChildren(linesOf(view, data.matrices[index], index));
  const pick = picker(view, show);
  return { node: el("div", {}, pick, holder), begin: () => show(view.shown), parts: () => partsOf(view) };
}

// The places of the `most` weights farthest from 0, farthest first, and how many are not 0 at all. What cannot be
// among them any more is never kept: sixteen million weights need no list of sixteen million places.
function largestOf(weights, most) {
  let [all, floor] = [0, 0];
  const places = [];
  const prune = () => {
    places.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]));
    if (places.length >= most) floor = Math.abs(weights[places[most - 1]]);
    places.length = Math.min(places.length, most);
  };
  for (let k = 0; k < weights.length; k++) {
    if (weights[k] === 0) continue;
    all++;
    if (Math.abs(weights[k]) > floor) places.push(k);
    if (places.length > 4 * most) prune();
  }
  prune();
  return { places, all };
}

function linesOf(view, matrix, index) {
  const { source, target, most } = view.data;
  const [m, n] = matrix.shape;
  const weights = weightsOf(matrix);
  const height = Math.max(m, n) * ROW;
  const offset = (count) => ((Math.max(m, n) - count) * ROW) / 2;
  const picture = svg("svg", { class: "regard-lines", viewBox: `0 0 200 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  styled(picture, { height: px(height) });
  const { places, all } = largestOf(weights, LINES);
  const touching = { source: new Map(), target: new Map() };
  const keep = (side, k, line) => touching[side].set(k, [...(touching[side].get(k) || []), line]);
  for (const k of places.reverse()) {
    const [i, j] = [Math.floor(k / n), k % n];
    const share = Math.abs(weights[k]) / most;
    const line = svg("line", {
      x1: 0, y1: offset(n) + (j + 0.5) * ROW, x2: 200, y2: offset(m) + (i + 0.5) * ROW,
      "stroke-width": 0.6 + 4 * share, "stroke-opacity": 0.12 + 0.88 * share, class: weights[k] < 0 ? "regard-against" : null,
    });
    picture.append(line);
    keep("source", j, line);
    keep("target", i, line);
  }
  const column = (side, words, count) => styled(el("div", { class: `regard-column regard-${side}` }, ...words.map((word, k) => {
    const node = wordButton(view, side, k, word, index);
    const strong = (on) => {
      picture.classList.toggle("regard-one", on);
      for (const line of touching[side].get(k) || []) line.classList.toggle("regard-on", on);
      if (!on) return view.tip.hide();
      const box = node.getBoundingClientRect();
      view.tip.show(says(side, k), box.left, box.bottom - 12, node === document.activeElement);
    };
    for (const [begin, end] of [["pointerenter", "pointerleave"], ["focus", "blur"]]) {
      node.addEventListener(begin, () => strong(true));
      node.addEventListener(end, () => strong(false));
    }
    return node;
  })), { "padding-top": px(offset(count)) });
  function says(side, k) {
    const [row, names] = side === "target"
      ? [weights.subarray(k * n, (k + 1) * n), source]
      : [Float32Array.from({ length: m }, (_, i) => weights[i * n + k]), target];
    const seen = strongest(row, 5).filter((at) => row[at] !== 0).map((at) => `${isolated(names[at])} ${number(row[at])}`);
    return `${isolated((side === "target" ? target : source)[k])} ${side === "target" ? "→" : "←"} ${seen.join(", ") || "nothing"}`;
  }
  const frame = el("div", { class: "regard-between" }, column("source", source, n), picture, column("target", target, m));
  const scroll = el("div", { class: "regard-tall" }, frame);
  const heads = el("div", { class: "regard-between regard-sides", "aria-hidden": "true" }, el("span", {}, "source"), el("span"), el("span", {}, "target"));
  return el("div", {}, heads, scroll, all > LINES ? el("p", { class: "regard-small" }, `The strongest ${LINES} of ${all} lines are drawn.`) : null);
}
