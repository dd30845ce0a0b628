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
      view.options.map = null;
      all().querySelectorAll("button")[index].focus();
    });
    const map = mapPanel(view, index, data.maps[index].name || "map");
    holder.replaceChildren(el("div", { class: "regard-bar" }, back), map.node);
    map.begin();
    view.options.map = index;
    if (!asked) return;
    back.focus({ preventScroll: true });
    view.tell("regard:map", { index });
  };
  const begin = () => (Number.isInteger(view.options.map) ? one(view.shown, false) : all());
  return { node: holder, begin, parts: () => mapParts(view) };
}

function overview(view, enlarge) {
  const { maps } = view.data;
  const ramp = rampOf(view.data);
  const layers = [...new Set(maps.map((map) => map.layer))];
  const rows = layers.map((layer) => {
    const thumbs = maps.flatMap((map, index) => (map.layer === layer ? [thumb(view, map, index, ramp, enlarge)] : []));
    return el("div", { class: "regard-layer" }, layer === null ? null : el("span", { class: "regard-name" }, `layer ${layer + 1}`), ...thumbs);
  });
  return el("div", { class: "regard-wide" }, ...rows);
}

function thumb(view, map, index, ramp, enlarge) {
  let level = { m: map.shape[0], n: map.shape[1], weights: weightsOf(map) };
  while (Math.max(level.m, level.n) > 2 * THUMB) level = halved(level);
  const sheet = el("canvas", { class: "regard-thumb", width: level.n, height: level.m, "aria-hidden": "true" });
  sheet.getContext("2d").putImageData(coloured(level.weights, level.n, 0, level.m, 0, level.n, ramp), 0, 0);
  const scale = THUMB / Math.max(level.m, level.n);
  styled(sheet, { width: px(Math.max(8, level.n * scale)), height: px(Math.max(8, level.m * scale)) });
  if (isBlack(view)) sheet.classList.add("regard-black");
  const name = map.head === null ? map.name : `head ${map.head + 1}`;
  const button = el("button", { type: "button", class: "regard-small-one", "aria-label": `enlarge ${map.name || "the map"}` }, sheet, el("span", {}, name));
  button.addEventListener("click", () => enlarge(index));
  return button;
}
