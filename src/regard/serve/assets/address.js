// The address: the state of the page is in the fragment behind #, which is not sent to the server and can be shared.

const MOST = 4; // runs beside each other
const CHANGES = {none: 'As it is', mask: 'Masked', delete: 'Deleted', blur: 'Blurred'};

/** The state an address describes; what it does not say has its default. */
function readAddress(runs) {
  const said = new URLSearchParams(location.hash.slice(1));
  const panels = said.getAll('run').slice(0, MOST).flatMap((name, i) => {
    const run = runs.find(one => one.name === name);
    return run ? [{run: name, options: readOptions(run, control => said.getAll(control)[i])}] : [];
  });
  const how = said.get('how'), first = runs.find(one => one.name === panels[0]?.run) ?? runs[0];
  return {
    text: said.get('text') ?? first.example,
    second: said.get('second') ?? (said.has('text') ? null : first.second_examples[0] ?? null),
    words: said.getAll('word').filter(word => /^[1-9]\d{0,5}$/.test(word)).map(word => Number(word) - 1),
    how: Object.hasOwn(CHANGES, how ?? '') ? how : 'none',
    panels: panels.length ? panels : [newPanel(runs[0])],
  };
}

function readOptions(run, said) {
  const change = run.controls.flatMap(({name, options}) =>
    options.filter(([value]) => written(value) === said(name)).map(([value]) => [name, value]));
  return withOptions(run, defaultOptions(run), Object.fromEntries(change));
}

/** The address of a state; it has the options of a control for all panels if one of them is not the default. */
function writeAddress(state, runs) {
  const said = new URLSearchParams();
  if (!isPicture(state.text)) said.set('text', state.text); // a picture stays on this page
  if (state.second) said.set('second', state.second);
  for (const word of state.words) said.append('word', word + 1);
  if (state.how !== 'none') said.set('how', state.how);
  const chosen = state.panels.map(({run, options}) => runs.find(one => one.name === run).controls
    .filter(control => options[control.name] !== control.default).map(control => control.name));
  for (const {run, options} of state.panels) {
    said.append('run', run);
    for (const name of new Set(chosen.flat())) said.append(name, written(options[name] ?? null));
  }
  return '#' + said;
}

/** A value as people read it: they count from 1. */
function written(value) {
  return value === null ? '' : typeof value === 'number' ? String(value + 1) : value;
}

/** Ask the server; where it is full, wait and ask again. Fails with a sentence. */
async function ask(path, body, signal, tell) {
  for (let turn = 0; ; turn++) {
    let reply;
    try {
      reply = await fetch(path, {
        method: body ? 'POST' : 'GET',
        headers: body ? {'Content-Type': 'application/json'} : {},
        body: body ? JSON.stringify(body) : undefined,
        signal,
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Error('The server does not answer. Is it still running?');
    }
    if (reply.ok) return reply;
    if (reply.status === 503 && turn < 20) {
      tell?.('The server is busy; waiting …');
      await pause(1000 * Number(reply.headers.get('Retry-After') ?? 1) * (0.5 + Math.random()), signal);
      continue;
    }
    const said = await reply.json().catch(() => ({}));
    throw new Error(said.error ?? `The server answered ${reply.status}.`);
  }
}

function pause(milliseconds, signal) {
  return new Promise((done, stop) => {
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      stop(new DOMException('', 'AbortError'));
    });
  });
}
