// The page: a state, which is also its address, and panels that show it.

class Page {
  constructor(runs, saved) {
    this.runs = runs;
    this.saved = Boolean(saved);
    this.kept = saved?.answers; // of each panel, one after the other
    this.known = new Map();
    this.state = saved ? saved.scene : readAddress(runs);
    this.panels = [];
    this.words = [];
    this.at = name => document.getElementById(name);
    for (const box of ['text', 'second']) {
      this.at(box).addEventListener('input', () => this.typed());
      this.at(box).addEventListener('keydown', event => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.typed(0); }
      });
    }
    this.at('ask').addEventListener('submit', event => event.preventDefault());
    this.at('skip').addEventListener('click', event => { event.preventDefault(); this.at('panels').focus(); });
    this.at('add').addEventListener('click', () => this.add());
    this.at('save').addEventListener('click', () => this.save());
    this.at('share').addEventListener('click', () => this.share());
    if (this.saved) this.restrict();
    else {
      history.replaceState(null, '', writeAddress(this.state));
      window.addEventListener('popstate', () => { this.state = readAddress(runs); this.render(); });
    }
    this.render();
  }

  /** A saved page shows what it holds: nobody is there to ask. */
  restrict() {
    for (const box of ['text', 'second']) this.at(box).readOnly = true;
    for (const name of ['add', 'save', 'share']) this.at(name).hidden = true;
    document.querySelectorAll('.live').forEach(element => { element.hidden = true; });
    document.querySelector('.says').textContent = 'Saved from regard serve: answers, layers and heads can be chosen, the sentence stays.';
  }

  render() {
    for (const box of ['text', 'second']) {
      const text = this.state[box] ?? '';
      if (this.at(box).value !== text) this.at(box).value = text;
    }
    this.at('asking').hidden = !this.state.panels.some(panel => this.facts(panel.run).pairs);
    while (this.panels.length > this.state.panels.length) this.panels.pop().element.remove();
    while (this.panels.length < this.state.panels.length) {
      const panel = new Panel(this);
      this.panels.push(panel);
      this.at('panels').append(panel.element);
    }
    this.at('add').hidden = this.saved || this.runs.length < 2 || this.panels.length >= MOST;
    this.panels.forEach((panel, i) => panel.ask(this.state, this.state.panels[i]));
  }

  facts(name) {
    return this.runs.find(run => run.name === name);
  }

  /** What can be asked of a run without some of the words. */
  ways(name) {
    return this.facts(name).layers.length ? ['do_not_look', 'take_away'] : ['take_away'];
  }

  /** An answer, from the server or from memory. */
  async answer(question, signal) {
    const {run, how, text, second, words, layer, head, method} = question;
    if (this.saved) {
      const wanted = isClassifier(this.facts(run)) ? method ?? 'attention' : null;
      const fit = this.kept.filter(one => one.run === run && one.how === how && (one.method ?? null) === wanted);
      return fit.find(one => one.map?.maps.some(map => map.layer === layer && map.head === head)) ?? fit[0];
    }
    let key = JSON.stringify([run, how, text, second, words, method]);
    if (!(this.known.get(key)?.whole ?? true)) key = JSON.stringify([run, how, text, second, words, method, layer, head]);
    if (!this.known.has(key)) {
      const found = await (await ask('/api/look', question, signal, said => this.tell(said))).json();
      this.known.set(key, found);
      if (this.known.size > 60) this.known.delete(this.known.keys().next().value);
    }
    return this.known.get(key);
  }

  /** A first answer came: its words are the ones to click. */
  heard(answer) {
    this.tell('');
    answer ??= {words: []};
    this.state.words = this.state.words.filter(word => word < answer.words.length);
    if (answer.words.join('\n') !== this.words.join('\n') || this.at('words').childElementCount !== answer.words.length) {
      this.words = answer.words;
      this.at('words').replaceChildren(...this.words.map((word, i) =>
        make('button', {type: 'button', dir: 'auto', disabled: this.saved, onclick: () => this.toggle(i)}, word)));
    }
    [...this.at('words').children].forEach((button, i) => button.setAttribute('aria-pressed', String(this.state.words.includes(i))));
    this.at('question').hidden = !this.words.length;
    this.at('hint').textContent = this.saved ? '' : this.state.words.length
      ? 'Do not look: no weight on it, though other states may still carry it. Take away: it leaves the sentence. Choose an answer to see its map.'
      : 'Click a word, here or on a map.';
  }

  typed(wait = 250) {
    clearTimeout(this.timer);
    for (const panel of this.panels) panel.element.setAttribute('aria-busy', 'true');
    this.timer = setTimeout(() => {
      const text = this.at('text').value, second = this.at('second').value || null;
      if (text !== this.state.text) Object.assign(this.state, {words: [], how: 'as_it_is'});
      Object.assign(this.state, {text, second});
      this.changed({asks: true, replace: true});
    }, wait);
  }

  toggle(word) {
    if (this.saved) return;
    const words = this.state.words.includes(word) ? this.state.words.filter(one => one !== word) : [...this.state.words, word].sort((a, b) => a - b);
    this.focused = word;
    this.state.words = words;
    if (!words.length) this.state.how = 'as_it_is';
    this.changed({asks: true});
  }

  choose(how) {
    this.state.how = how;
    this.changed({asks: false});
  }

  /** The state is another: so is the address, and what is shown; only what is not known yet is asked for. */
  changed({asks, replace = false, panel = null}) {
    if (!this.saved) history[replace ? 'replaceState' : 'pushState'](null, '', writeAddress(this.state));
    if (asks && panel) panel.ask(this.state, panel.state);
    else if (asks) this.render();
    else for (const one of this.panels) {
      one.show(this.state);
      if (one.answers[one.how]?.map && !one.chosen()) one.ask(this.state, one.state);
    }
  }

  focusWord() {
    this.at('words').children[this.focused]?.focus();
  }

  add() {
    const shown = new Set(this.state.panels.map(panel => panel.run));
    const run = this.runs.find(one => !shown.has(one.name)) ?? this.runs[0];
    this.state.panels.push(fresh(run.name));
    this.changed({asks: true});
  }

  remove(panel) {
    this.state.panels.splice(this.panels.indexOf(panel), 1);
    this.changed({asks: true});
  }

  async share() {
    try {
      await navigator.clipboard.writeText(location.href);
      this.tell('The address is copied.');
    } catch {
      this.tell('The address of this page, above, is the one to share.');
    }
  }

  async save() {
    try {
      this.tell('Saving …');
      const file = await (await ask('/api/page', this.state, undefined, text => this.tell(text))).blob();
      const link = make('a', {href: URL.createObjectURL(file), download: 'regard.html'});
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      this.tell('Saved as regard.html.');
    } catch (error) {
      this.tell(error.message);
    }
  }

  tell(text) {
    this.at('status').textContent = text;
  }
}

async function start() {
  const element = document.getElementById('saved');
  const saved = element && JSON.parse(element.textContent);
  try {
    new Page(saved ? saved.runs : await (await ask('/api/runs')).json(), saved);
  } catch (error) {
    document.getElementById('status').textContent = error.message;
  }
}

start();
