// Words on the colour of their weight, with a bar below that grows with it; `steps` shows decoding step by step.

function passage(view, tokens, weights, ramp, side, matrix) {
  const total = (view.data.shares && weights.reduce((sum, w) => sum + Math.abs(w), 0)) || 1;
  const nodes = tokens.map((token, j) => {
    const w = weights[j];
    const node = wordButton(view, side, j, token, matrix);
    node.classList.add("regard-lit");
    const t = place(w / total, tokens.length);
    node.title = `${isolated(token)}: ${number(w)}${isUnknown(view, side, j) ? `, ${UNKNOWN}` : ""}`;
    const fill = css(ramp, t);
    if (fill) styled(node, { "background-color": fill, color: inkOn(ramp, t) });
    node.append(styled(el("i", { "aria-hidden": "true", class: w < 0 ? "regard-against" : null }), { width: `${100 * Math.abs(t)}%` }));
    return node;
  });
  const text = el("p", { class: "regard-passage", dir: direction(tokens) }, ...nodes.flatMap((node) => [node, " "]));
  for (const [begin, end] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    text.addEventListener(begin, (event) => {
      const word = event.target.closest(".regard-lit");
      if (!word) return;
      const box = word.getBoundingClientRect();
      view.tip.show(word.title, box.left, box.bottom - 12, false);
    });
    text.addEventListener(end, () => view.tip.hide());
  }
  return text;
}

function drawWords(view) {
  return rowByRow(view, (holder, matrix, row) => {
    const chosen = matrix.shape[0] > 1 ? choices("target word", view.data.target, row.at, row.go) : null;
    if (chosen) holder.append(chosen);
  });
}

function drawSteps(view) {
  return rowByRow(view, (holder, matrix, row) => {
    const last = matrix.shape[0] - 1;
    const said = el("p", { class: "regard-said", dir: direction(view.data.target) });
    const slider = el("input", { type: "range", min: 0, max: last, value: row.at, "aria-label": "step" });
    const where = el("span", { class: "regard-where" });
    const go = (index) => {
      const at = clamp(index, 0, last);
      slider.value = at;
      slider.setAttribute("aria-valuetext", `step ${at + 1} of ${last + 1}: ${view.data.target[at]}`);
      where.textContent = `step ${at + 1} of ${last + 1}`;
      back.disabled = at === 0;
      on.disabled = at === last;
      said.replaceChildren(...view.data.target.slice(0, at + 1).flatMap((word, k) => {
        const node = wordButton(view, "target", k, word);
        node.classList.toggle("regard-now", k === at);
        return [node, " "];
      }));
      row.go(at);
    };
    const back = el("button", { type: "button", class: "regard-choice" }, "‹ back");
    const on = el("button", { type: "button", class: "regard-choice" }, "next ›");
    back.addEventListener("click", () => go(Number(slider.value) - 1));
    on.addEventListener("click", () => go(Number(slider.value) + 1));
    slider.addEventListener("input", () => go(Number(slider.value)));
    holder.append(el("div", { class: "regard-bar" }, back, slider, on, where), said);
    row.start = () => go(row.at);
  });
}

// One row of one matrix at a time: `control` makes what the reader chooses the row with.
function rowByRow(view, control) {
  const { data } = view;
  const holder = el("div");
  const show = (index) => {
    const matrix = data.matrices[index];
    const [m, n] = matrix.shape;
    const weights = weightsOf(matrix);
    const ramp = rampOf(data);
    const text = el("div", { class: "regard-text" });
    const row = { at: clamp(view.options.row || 0, 0, m - 1), start: () => row.go(row.at) };
    row.go = (i) => {
      row.at = i;
      view.options.row = i;
      text.replaceChildren(passage(view, data.source, weights.subarray(i * n, (i + 1) * n), ramp, "source", index));
      view.tell("regard:row", { index: i });
    };
    holder.replaceChildren();
    control(holder, matrix, row);
    holder.append(text);
    row.start();
  };
  const pick = picker(view, show);
  return { node: el("div", {}, pick, holder), begin: () => show(view.shown), parts: () => partsOf(view) };
}
