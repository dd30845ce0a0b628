// The address: every state of the page stands behind #, which stays with the browser and can be shared.

const MOST = 4; // runs beside each other
const WAYS = {as_it_is: 'As it is', do_not_look: 'Do not look', take_away: 'Take away'};

/** The state an address describes; what it does not say has its default. */
function readAddress(runs) {
  const said = new URLSearchParams(location.hash.slice(1));
  const layers = said.getAll('layer'), heads = said.getAll('head'), methods = said.getAll('method');
  const panels = said.getAll('run').slice(0, MOST).flatMap((name, i) => {
    const run = runs.find(one => one.name === name);
    if (!run) return [];
    const method = run.methods.slice(1).includes(methods[i]) ? methods[i] : null; // the first is the default
    const judges = isClassifier(run), layer = judges ? null : whole(layers[i], run.layers.length);
    return [{run: name, method, layer, head: judges && (method || run.heads < 2) ? null : whole(heads[i], run.heads)}];
  });
  const how = said.get('how');
  return {
    text: said.get('text') ?? runs[0].example,
    second: said.get('second'),
    words: said.getAll('word').map(word => whole(word)).filter(word => word !== null),
    how: Object.hasOwn(WAYS, how ?? '') ? how : 'as_it_is',
    panels: panels.length ? panels : [fresh(runs[0].name)],
  };
}

/** A panel that shows what it shows if nothing else is said. */
function fresh(run) {
  return {run, layer: null, head: null, method: null};
}

function isClassifier(run) {
  return run.kind === 'classifier';
}

/** The address of a state; people count from 1, and so does it. */
function writeAddress(state) {
  const said = new URLSearchParams();
  said.set('text', state.text);
  if (state.second) said.set('second', state.second);
  for (const word of state.words) said.append('word', word + 1);
  if (state.how !== 'as_it_is') said.set('how', state.how);
  for (const panel of state.panels) {
    said.append('run', panel.run);
    said.append('layer', panel.layer === null ? '' : panel.layer + 1);
    said.append('head', panel.head === null ? '' : panel.head + 1);
    if (state.panels.some(one => one.method)) said.append('method', panel.method ?? '');
  }
  return '#' + said;
}

/** A number from 1 to count as one from 0; anything else is null. */
function whole(text, count = Infinity) {
  return /^[1-9]\d{0,5}$/.test(text ?? '') && Number(text) <= count ? Number(text) - 1 : null;
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
      tell?.('Many are asking; waiting for a turn …');
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
