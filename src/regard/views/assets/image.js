// Weights over the cells of a picture, and weights over layers: a matrix made from one row of the matrices.

function drawImage(view) {
  const { data } = view;
  const [rows, columns] = data.grid;
  const marked = [...view.selected.source].map((cell) => [cell % columns, Math.floor(cell / columns)]);
  const tell = (i, j) => view.tell("regard:word", { side: "source", index: i * columns + j, matrix: 0 });
  return forOneTarget(view, (matrix, i) => ({
    m: rows, n: columns, weights: weightsOf(matrix).subarray(i * rows * columns, (i + 1) * rows * columns),
    rows: Array.from({ length: rows }, (_, k) => `row ${k + 1}`), columns: Array.from({ length: columns }, (_, k) => `column ${k + 1}`),
    words: false, under: data.picture, marked, ellipses: matrix.ellipses ? [matrix.ellipses[i]] : [], pick: view.options.mayClick === false ? null : tell, least: 24, most: Math.max(12, Math.floor(460 / Math.max(rows, columns))), title: data.target[i],
  }));
}

function drawLayers(view) {
  const { data } = view;
  const n = data.source.length;
  return forOneTarget(view, (_, i) => {
    const weights = new Float32Array(data.matrices.length * n);
    data.matrices.forEach((matrix, k) => weights.set(weightsOf(matrix).subarray(i * n, (i + 1) * n), k * n));
    return { m: data.matrices.length, n, weights, rows: data.matrices.map((matrix) => matrix.name), columns: data.source, rowSide: "layer", title: data.target.length > 1 ? data.target[i] : "" };
  }, true);
}

// A choice of target words above, the matrix of the chosen one below.
function forOneTarget(view, specOf, allMaps = false) {
  const { data } = view;
  const holder = el("div");
  let part = null;
  let at = clamp(view.options.row || 0, 0, data.target.length - 1);
  let index = view.shown;
  const show = () => {
    view.options.row = at;
    part = heatMap(view, { ...specOf(data.matrices[index], at), matrix: index });
    holder.replaceChildren(part.node);
    part.begin();
  };
  const words = data.target.length > 1 ? choices("target word", data.target, at, (i) => { at = i; show(); view.tell("regard:row", { index: i }); }) : null;
  const pick = allMaps ? null : picker(view, (k) => { index = k; show(); });
  const parts = () => data.target.map((_, i) => ({ ...specOf(data.matrices[index], i), title: data.target[i] }));
  return { node: el("div", {}, pick, words, holder), begin: show, parts };
}
