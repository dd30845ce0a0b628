// Controls: what can be chosen of a run, as the server lists it. Options are the values chosen, by name.

function defaultOptions(run) {
  return Object.fromEntries(run.controls.map(control => [control.name, control.default]));
}

/** Whether a control has an effect beside these options. */
function isActive(control, options) {
  return Object.entries(control.when).every(([name, values]) => values.includes(options[name]));
}

/** Options after some of them changed; a control that has no effect any more gets its default. */
function withOptions(run, options, change) {
  const next = {...options, ...change};
  for (const control of run.controls) if (!isActive(control, next)) next[control.name] = control.default;
  return next;
}

function sameOptions(a, b) {
  return Object.keys(b).every(name => a[name] === b[name]);
}

/** Whether an answer holds what is to be shown with these options. */
function holds(answer, options) {
  return Boolean(answer) && (sameOptions(answer.options, options) || Boolean(matrixOf(answer, options)));
}

function matrixOf(answer, options) {
  return answer?.view?.matrices.find(matrix => sameOptions(matrix.options, options));
}

/** A panel that shows what it shows if nothing else is said. */
function newPanel(run) {
  return {run: run.name, options: defaultOptions(run)};
}
