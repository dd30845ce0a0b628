// All layers and heads at once, small; one of them large.

const THUMB = 72;

function drawHeads(view) {
  const { data } = view;
  const holder = el("div");
  const all = () => {
    const node = overview(view, one);
    holder.replaceChildren(node);
    return node;
  };
  const one = (index, asked = true) => {
    const back = el("button", { type: "button", class: "regard-choice" }, "‹ all heads");
    back.addEventListener("click", () => {
      view.options.matrix = null;
      all().querySelectorAll("button")[index].focus();
    });
    const matrix = panelOf(view, index, data.matrices[index].name || "heat map");
    holder.replaceChildren(el("div", { class: "regard-bar" }, back), matrix.node);
    matrix.begin();
    view.options.matrix = index;
    if (!asked) return;
    back.focus({ preventScroll: true });
    view.tell("regard:matrix", { index });
  };
  const begin = () => (Number.isInteger(view.options.matrix) ? one(view.shown, false) : all());
  return { node: holder, begin, parts: () => partsOf(view) };
}

function overview(view, enlarge) {
  const { matrices } = view.data;
  const ramp = rampOf(view.data);
  const layers = [...new Set(matrices.map((matrix) => matrix.layer))];
  const rows = layers.map((layer) => {
    const thumbs = matrices.flatMap((matrix, index) => (matrix.layer === layer ? [thumb(view, matrix, index, ramp, enlarge)] : []));
    return el("div", { class: "regard-layer" }, layer === null ? null : el("span", { class: "regard-name" }, `layer ${layer + 1}`), ...thumbs);
  });
  return el("div", { class: "regard-wide" }, ...rows);
}

function thumb(view, matrix, index, ramp, enlarge) {
  let level = { m: matrix.shape[0], n: matrix.shape[1], weights: weightsOf(matrix) };
  while (Math.max(level.m, level.n) > 2 * THUMB) level = halved(level);
  const sheet = el("canvas", { class: "regard-thumb", width: level.n, height: level.m, "aria-hidden": "true" });
  sheet.getContext("2d").putImageData(coloured(level.weights, level.n, 0, level.m, 0, level.n, ramp), 0, 0);
  const scale = THUMB / Math.max(level.m, level.n);
  styled(sheet, { width: px(Math.max(8, level.n * scale)), height: px(Math.max(8, level.m * scale)) });
  if (isBlack(view)) sheet.classList.add("regard-black");
  const name = matrix.head === null ? matrix.name : `head ${matrix.head + 1}`;
  const button = el("button", { type: "button", class: "regard-small-one", "aria-label": `${view.options.enlarge === false ? "show" : "enlarge"} ${matrix.name || "the heat map"}` }, sheet, el("span", {}, name));
  if (view.options.chosen === index) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => (view.options.enlarge === false ? view.tell("regard:matrix", { index }) : enlarge(index)));
  return button;
}
