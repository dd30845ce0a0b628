// The page: a state, which is also its address, and panels that show it.

class Page {
  constructor(runs, saved) {
    this.runs = runs;
    this.saved = Boolean(saved);
    this.answers = new Map(); // those that came, by what was asked
    for (const answer of saved?.answers ?? []) this.keep([answer.run, answer.how], answer);
    this.state = saved ? saved.state : readAddress(runs);
    this.panels = [];
    this.words = [];
    this.at = name => document.getElementById(name);
    for (const box of ['text', 'second']) {
      this.at(box).addEventListener('input', () => this.typed());
      this.at(box).addEventListener('keydown', event => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.typed(0); }
      });
    }
    this.at('file').addEventListener('change', () => this.see(this.at('file').files[0]));
    document.addEventListener('dragover', event => { if (this.pictured) event.preventDefault(); });
    document.addEventListener('drop', event => {
      if (!this.pictured) return;
      event.preventDefault();
      this.see(event.dataTransfer.files[0]);
    });
    this.at('ask').addEventListener('submit', event => event.preventDefault());
    this.at('skip').addEventListener('click', event => { event.preventDefault(); this.at('panels').focus(); });
    this.at('add').addEventListener('click', () => this.add());
    this.at('save').addEventListener('click', () => this.save());
    this.at('share').addEventListener('click', () => this.share());
    if (this.saved) this.restrict();
    else {
      history.replaceState(null, '', writeAddress(this.state, runs));
      window.addEventListener('popstate', () => { this.state = readAddress(runs); this.render(); });
    }
    this.render();
  }

  /** Whether the first run looks at pictures. */
  get pictured() {
    return !this.saved && this.facts(this.state.panels[0].run).pictures;
  }

  /** Show a picture that was dropped or chosen. */
  async see(file) {
    if (!file) return;
    try {
      this.type(await readPicture(file));
    } catch (error) {
      this.tell(error.message);
    }
  }

  /** A saved page shows what it holds: nobody is there to ask. */
  restrict() {
    for (const box of ['text', 'second']) this.at(box).readOnly = true;
    for (const name of ['add', 'save', 'share']) this.at(name).hidden = true;
    document.querySelectorAll('.live').forEach(element => { element.hidden = true; });
    document.querySelector('.says').textContent = 'Saved from regard serve: the text stays; answers, layers and heads can be chosen.';
  }

  render() {
    for (const box of ['text', 'second']) {
      const text = this.state[box] ?? '';
      if (this.at(box).value !== text) this.at(box).value = text;
    }
    this.drawExamples();
    const pictures = this.facts(this.state.panels[0].run).pictures;
    this.at('typing').hidden = pictures;
    this.at('drop').hidden = !pictures || this.saved;
    const asked = this.state.panels.map(panel => this.facts(panel.run)).find(run => run.second);
    this.at('asking').hidden = !asked;
    this.at('second-says').textContent = asked?.second ?? '';
    const {units, changes} = this.facts(this.state.panels[0].run);
    this.at('question-says').textContent = `${changes.includes('mask') ? 'Mask or delete' : 'Delete'} ${units}`;
    if (!this.saved) document.querySelector('.says').textContent = `${pictures ? 'Choose a picture.' : 'Type a text.'} See what the model answers and where it attends. Then click ${units}, and see what changes without them.`;
    while (this.panels.length > this.state.panels.length) this.panels.pop().element.remove();
    while (this.panels.length < this.state.panels.length) {
      const panel = new Panel(this);
      this.panels.push(panel);
      this.at('panels').append(panel.element);
    }
    this.at('add').hidden = this.saved || this.runs.length < 2 || this.panels.length >= MOST;
    this.panels.forEach((panel, i) => panel.ask(this.state, this.state.panels[i]));
  }

  /** What the first run is for, and texts to try it with. */
  drawExamples() {
    const {about, examples, second_examples: seconds} = this.facts(this.state.panels[0].run);
    this.at('about').textContent = about;
    this.at('examples').hidden = this.saved || !examples.length;
    if (this.at('examples').dataset.of === examples.join('\n')) return;
    this.at('examples').dataset.of = examples.join('\n');
    this.at('examples').replaceChildren('Try: ', ...examples.map((text, i) =>
      make('button', {type: 'button', dir: 'auto', title: isPicture(text) ? 'a picture' : text, onclick: () => this.type(text, seconds[i])},
        isPicture(text) ? make('img', {src: text, alt: 'a picture to try', height: 48}) : text)));
  }

  type(text, second) {
    this.at('text').value = text;
    if (second !== undefined) this.at('second').value = second;
    this.typed(0);
  }

  facts(name) {
    return this.runs.find(run => run.name === name);
  }

  /** An answer, from the server or from memory. A saved page keeps one text, so run and change are all that was asked. */
  async answer(request, signal) {
    const {run, how, text, second, words, options} = request;
    const key = this.saved ? [run, how] : [run, how, text, second, words];
    const kept = this.kept(key), found = kept.find(one => holds(one, options)) ?? (this.saved && kept[0]);
    return found || this.keep(key, await (await ask('/api/inspect', request, signal, said => this.tell(said))).json());
  }

  kept(key) {
    return this.answers.get(JSON.stringify(key)) ?? [];
  }

  keep(key, answer) {
    this.answers.set(JSON.stringify(key), [...this.kept(key), answer]);
    if (this.answers.size > 60) this.answers.delete(this.answers.keys().next().value);
    return answer;
  }

  /** Whether a saved page has an answer that shows these options. */
  has(run, how, options) {
    return this.kept([run, how]).some(answer => holds(answer, options));
  }

  /** A first answer came: its words are the ones to click. */
  received(answer) {
    this.tell('');
    answer ??= {words: []};
    this.state.words = this.state.words.filter(word => word < answer.words.length);
    if (answer.words.join('\n') !== this.words.join('\n') || this.at('words').childElementCount !== answer.words.length) {
      this.words = answer.words;
      this.at('words').replaceChildren(...this.words.map((word, i) =>
        make('button', {type: 'button', dir: 'auto', disabled: this.saved, onclick: () => this.toggle(i)}, word)));
    }
    [...this.at('words').children].forEach((button, i) => {
      const unknown = Boolean(answer.unknown?.includes(i));
      button.setAttribute('aria-pressed', String(this.state.words.includes(i)));
      button.classList.toggle('unknown', unknown);
      button.title = unknown ? 'unknown to the model' : '';
    });
    const pictured = this.facts(this.state.panels[0].run).pictures;
    this.at('question').hidden = !this.words.length;
    this.at('words').hidden = pictured; // regions are clicked in the picture
    this.at('hint').textContent = this.saved ? '' : this.state.words.length
      ? 'Masked: no attention weight on it, though other hidden states may still carry it. Deleted: removed from the text. Choose an answer to see its weights.'
      : pictured ? 'Click regions of the picture below.' : `Click ${this.facts(this.state.panels[0].run).units}, here or in a picture.`;
    if (pictured && this.state.words.length) this.at('hint').textContent = 'Masked: no attention weight on the region, though others may have seen it. Deleted: painted in the mean colour. Choose an answer to see its weights.';
    if (answer.unknown?.length && !this.saved) this.at('hint').textContent += ' Dotted: unknown to the model.';
  }

  typed(wait = 250) {
    clearTimeout(this.timer);
    for (const panel of this.panels) panel.element.setAttribute('aria-busy', 'true');
    this.timer = setTimeout(() => {
      const text = this.at('text').value, second = this.at('second').value || null;
      if (text !== this.state.text) Object.assign(this.state, {words: [], how: 'none'});
      Object.assign(this.state, {text, second});
      this.changed({asks: true, replace: true});
    }, wait);
  }

  toggle(word) {
    if (this.saved) return;
    const words = this.state.words.includes(word) ? this.state.words.filter(one => one !== word) : [...this.state.words, word].sort((a, b) => a - b);
    this.state.words = words;
    if (!words.length) this.state.how = 'none';
    this.changed({asks: true});
  }

  choose(how) {
    this.state.how = how;
    this.changed({asks: false});
  }

  /** The state is another: so is the address, and what is shown; only what is not known yet is asked for. */
  changed({asks, replace = false, panel = null}) {
    if (!this.saved) history[replace ? 'replaceState' : 'pushState'](null, '', writeAddress(this.state, this.runs));
    if (asks && panel) panel.ask(this.state, panel.state);
    else if (asks) this.render();
    else for (const one of this.panels) {
      one.show(this.state);
      if (one.answers[one.how] && !holds(one.answers[one.how], one.state.options)) one.ask(this.state, one.state);
    }
  }

  focusWord(word) {
    this.at('words').children[word]?.focus();
  }

  add() {
    const shown = new Set(this.state.panels.map(panel => panel.run));
    const run = this.runs.find(one => !shown.has(one.name)) ?? this.runs[0];
    this.state.panels.push(newPanel(run));
    this.changed({asks: true});
    if (this.at('add').hidden) this.panels.at(-1).run.focus(); // the button that was pressed is gone
  }

  remove(panel) {
    const at = this.panels.indexOf(panel);
    this.state.panels.splice(at, 1);
    this.changed({asks: true});
    this.panels[Math.min(at, this.panels.length - 1)].run.focus();
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
