// A panel: one run, what it says (as it is, and without the chosen words), and one of its maps, or its words.

class Panel {
  constructor(page) {
    this.page = page;
    this.answers = {};
    this.run = make('select', {'aria-label': 'Run', onchange: () => this.change(fresh(this.run.value))});
    this.close = make('button', {type: 'button', class: 'close', 'aria-label': 'Remove this run', onclick: () => page.remove(this)}, '×');
    this.facts = make('p', {class: 'facts'});
    this.said = make('div', {class: 'answers', role: 'radiogroup', 'aria-label': 'Answers', onkeydown: event => this.move(event)});
    this.problem = make('p', {class: 'problem', role: 'alert'});
    this.layer = make('select', {onchange: () => this.change({layer: Number(this.layer.value)})});
    this.head = make('select', {onchange: () => this.change({head: this.head.value === '' ? null : Number(this.head.value)})});
    this.method = make('select', {onchange: () => this.change({method: this.method.selectedIndex ? this.method.value : null, head: null})});
    this.controls = make('div', {class: 'controls'}, make('label', {}, 'Layer ', this.layer), make('label', {}, 'Head ', this.head),
      make('label', {}, 'Coloured by ', this.method));
    this.map = make('div', {class: 'map'});
    this.map.addEventListener('regard:word', event => this.clicked(event.detail));
    this.small = make('div');
    this.small.addEventListener('regard:map', event => this.enlarged(event.detail.index));
    this.every = make('details', {class: 'every', ontoggle: () => this.overview()}, make('summary', {}, 'All layers and heads'), this.small);
    this.element = make('section', {class: 'panel'},
      make('div', {class: 'top'}, this.run, this.close), this.facts, this.said, this.problem, this.controls, this.every, this.map);
  }

  change(part) {
    Object.assign(this.state, part);
    const other = part.run !== undefined;
    this.page.changed({asks: other || part.method !== undefined || !this.chosen(), panel: other ? null : this});
  }

  get about() {
    return this.page.facts(this.state.run);
  }

  /** Ask for every answer that the state needs. What was shown stays until all are there. */
  async ask(state, panel) {
    this.stop?.abort();
    const {signal} = this.stop = new AbortController();
    this.state = panel;
    this.element.setAttribute('aria-busy', 'true');
    const {text} = state, {run, layer, head, method} = panel;
    const second = this.page.facts(run).pairs ? state.second ?? '' : null;
    const answer = (how, words) => this.page.answer({run, text, second, words, how, layer, head, method}, signal);
    try {
      const found = text.trim() ? {as_it_is: await answer('as_it_is', [])} : {};
      signal.throwIfAborted();
      this.page.heard(found.as_it_is ?? null);
      this.problem.textContent = '';
      if (this.page.state.words.length) {
        for (const how of this.page.ways(run)) found[how] = await answer(how, this.page.state.words);
      }
      signal.throwIfAborted();
      this.answers = found;
      this.show(this.page.state);
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.answers = {};
      this.show(this.page.state);
      this.problem.textContent = error.message;
      if (this === this.page.panels[0]) this.page.heard(null);
    }
    this.element.removeAttribute('aria-busy');
  }

  show(state) {
    const {runs} = this.page, run = this.about;
    this.element.setAttribute('aria-label', run.name);
    choose(this.run, runs.map(one => [one.name, one.name]), run.name);
    this.run.disabled = this.page.saved;
    this.close.hidden = this.page.saved || this.page.state.panels.length < 2;
    this.facts.textContent = `${run.model}, ${run.parameters.toLocaleString('en')} parameters` +
      (run.layers.length ? `, score ${run.score}, map ${run.map}` : ', without attention') +
      (run.beam > 1 ? `, beam ${run.beam}` : '') + (isClassifier(run) ? `, ${run.labels.length} classes` : '');
    if (run.audit && !this.page.saved) this.facts.append(' · ', make('a', {href: run.audit, target: '_blank', rel: 'noopener'}, 'its audit'));
    this.how = this.answers[state.how] ? state.how : 'as_it_is';
    this.cards();
    this.draw();
  }

  cards() {
    const first = this.answers.as_it_is, focused = this.said.contains(document.activeElement);
    this.said.replaceChildren(...Object.entries(WAYS).filter(([how]) => this.answers[how]).map(([how, name]) => {
      const answer = this.answers[how], {answer_words: words, change} = answer, plain = how === 'as_it_is';
      return make('div', {
        class: 'card', role: 'radio', 'data-how': how, tabindex: how === this.how ? 0 : -1,
        'aria-checked': String(how === this.how), onclick: () => this.page.choose(how),
      },
      make('h3', {}, name), spoken(words, plain ? words.map(() => false) : changed(first.answer_words, words)),
      answer.method ? chances(answer.probabilities, first.probabilities) : '',
      make('p', {class: 'facts'}, this.remark(first, answer)), change ? make('p', {class: 'facts'}, change) : '');
    }));
    if (focused) this.said.querySelector('[aria-checked="true"]')?.focus();
  }

  /** What a card says of its answer besides the answer. */
  remark(first, answer) {
    if (answer.method) return answer === first ? '' : judgedAnew(first, answer);
    const differ = answer === first ? '' : differs(first.answer_words, answer.answer_words) + '; ';
    return `${differ}log p ${answer.log_prob.toFixed(2).replace('-', '−')}`;
  }

  /** Arrow keys choose among the answers, as among radio buttons. */
  move(event) {
    const ways = [...this.said.children].map(card => card.dataset.how), at = ways.indexOf(this.how);
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (event.key !== ' ' && event.key !== 'Enter' && !step) return;
    event.preventDefault();
    this.page.choose(ways[(at + (step ?? 0) + ways.length) % ways.length]);
  }

  /** The map that the state asks for, or undefined where the server must be asked for it. */
  chosen() {
    const data = this.answers[this.how]?.map;
    const layer = isClassifier(this.about) ? null : this.state.layer ?? this.about.layers.length - 1;
    return data?.maps.find(map => map.layer === layer && map.head === this.state.head);
  }

  /** What can be chosen: layer and head of a translator; of a classifier the explanation, and which look if there are several. */
  choices(answer) {
    const run = this.about, {layers, heads, methods} = run, judges = isClassifier(run);
    this.controls.hidden = !judges && !answer?.map;
    choose(this.layer, layers.map((path, i) => [i, `${i + 1} of ${layers.length}`]), this.state.layer ?? layers.length - 1);
    choose(this.head, [['', heads > 1 ? 'mean of all' : '1 of 1'],
      ...Array.from({length: heads > 1 ? heads : 0}, (_, i) => [i, `${i + 1} of ${heads}`])], this.state.head ?? '');
    choose(this.method, methods.map(name => [name, name]), this.state.method ?? methods[0]);
    this.layer.parentElement.hidden = judges;
    this.head.parentElement.hidden = judges && (heads < 2 || this.state.method !== null);
    this.head.parentElement.firstChild.textContent = judges ? 'Look ' : 'Head ';
    this.method.parentElement.hidden = !judges;
    this.layer.disabled = this.head.disabled = this.page.saved && !answer?.whole;
    this.method.disabled = this.page.saved;
  }

  draw() {
    const answer = this.answers[this.how];
    this.choices(answer);
    this.every.hidden = isClassifier(this.about) || this.heads.length < 2;
    this.overview();
    const map = answer?.map && (this.chosen() ?? answer.map.maps[0]);
    if (!map) {
      this.map.replaceChildren();
      const why = answer?.missing || (answer && !this.about.layers.length ? 'This model has no attention to draw.' : '');
      if (why) this.map.append(make('p', {class: 'hint'}, why));
      return;
    }
    const selected = this.page.state.words.map(word => answer.places.indexOf(word)).filter(at => at >= 0);
    const caption = [map.caption, answer.change].filter(Boolean).join(' ');
    const focused = this.map.contains(document.activeElement);
    regard.draw(this.map, {...answer.map, maps: [map], title: '', caption}, {selected, mayClick: !this.page.saved});
    if (focused) this.page.focusWord();
  }

  /** The maps of single heads, or of layers where these have one; none where they did not all come. */
  get heads() {
    const {map, whole} = this.answers[this.how] ?? {};
    const maps = map && whole ? map.maps : [], single = maps.filter(one => one.head !== null);
    return single.length ? single : maps;
  }

  overview() {
    if (this.every.hidden || !this.every.open) return;
    const {map} = this.answers[this.how];
    regard.draw(this.small, {...map, kind: 'heads', maps: this.heads, title: '', caption: '', note: ''}, {mayClick: false});
  }

  enlarged(index) {
    const {layer, head} = this.heads[index];
    this.change({layer, head});
  }

  clicked({side, index}) {
    if (side === 'source') this.page.toggle(this.answers[this.how].places[index]);
  }
}
