// Moving through a grid: the pointer hovers, drags and zooms; keys go from cell to cell and word to word.

function byPointer(grid) {
  const { scroller, body } = grid;
  let held = null;
  body.addEventListener("pointermove", (event) => {
    if (held) {
      scroller.scrollLeft = held.left - (event.clientX - held.x);
      scroller.scrollTop = held.top - (event.clientY - held.y);
      return;
    }
    const box = body.getBoundingClientRect();
    const [i, j] = [Math.floor((event.clientY - box.top) / grid.cell), Math.floor((event.clientX - box.left) / grid.cell)];
    if (i >= 0 && j >= 0 && i < grid.spec.m && j < grid.spec.n) grid.go(i, j, event);
  });
  body.addEventListener("pointerleave", () => grid.leave());
  body.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button) return;
    held = { x: event.clientX, y: event.clientY, left: scroller.scrollLeft, top: scroller.scrollTop };
    body.setPointerCapture(event.pointerId);
  });
  body.addEventListener("pointerup", (event) => {
    const stays = !held || Math.hypot(event.clientX - held.x, event.clientY - held.y) < 4;
    if (stays && grid.spec.pick && grid.at && !event.button) grid.spec.pick(grid.at.i, grid.at.j);
  });
  for (const end of ["pointerup", "pointercancel"]) body.addEventListener(end, () => (held = null));
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = scroller.getBoundingClientRect();
    grid.zoom(grid.cell * Math.exp(-event.deltaY / 300), event.clientX - box.left - grid.leftWidth, event.clientY - box.top - grid.topHeight);
  }, { passive: false });
  scroller.addEventListener("focus", () => grid.at || grid.go(0, 0));
  scroller.addEventListener("blur", () => grid.leave());
}

function byKeyboard(grid) {
  grid.scroller.addEventListener("keydown", (event) => {
    const { m, n, sides, matrix } = grid.spec;
    const { i, j } = grid.at || { i: 0, j: 0 };
    const axis = event.target.closest(".regard-top") ? "column" : event.target.closest(".regard-left") ? "row" : null;
    const to = {
      ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], ArrowUp: [i - 1, j], ArrowDown: [i + 1, j],
      Home: [event.ctrlKey ? 0 : i, 0], End: [event.ctrlKey ? m - 1 : i, n - 1], PageUp: [i - 10, j], PageDown: [i + 10, j],
    }[event.key];
    if (to) {
      event.preventDefault();
      grid.go(clamp(to[0], 0, m - 1), clamp(to[1], 0, n - 1));
      if (axis) grid.words[axis].get(axis === "row" ? grid.at.i : grid.at.j)?.focus({ preventScroll: true });
    } else if (event.key === "+" || event.key === "=") grid.zoom(grid.cell * 1.4);
    else if (event.key === "-") grid.zoom(grid.cell / 1.4);
    else if (event.key === "Escape") grid.leave();
    else if (event.key === "Enter" && !axis && grid.spec.pick) grid.spec.pick(i, j);
    else if (event.key === "Enter" && !axis && grid.spec.columns && grid.view.options.mayClick !== false) {
      grid.view.tell("regard:word", { side: sides.column, index: j, matrix });
    }
  });
}
