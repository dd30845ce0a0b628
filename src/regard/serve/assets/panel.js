// A panel: one run, its answers (to the text as it is, and with the chosen words masked or deleted), and a picture of weights.

class Panel {
  constructor(page) {
    this.page = page;
    this.answers = {};
    this.run = make('select', {'aria-label': 'Run', onchange: () => this.changeRun()});
    this.close = make('button', {type: 'button', class: 'close', 'aria-label': 'Remove this run', onclick: () => page.remove(this)}, '×');
    this.facts = make('p', {class: 'facts'});
    this.cards = make('div', {class: 'answers', role: 'radiogroup', 'aria-label': 'Answers', onkeydown: event => this.move(event)});
    this.problem = make('p', {class: 'problem', role: 'alert'});
    this.controls = make('div', {class: 'controls'});
    this.picture = make('div', {class: 'picture'});
    this.picture.addEventListener('regard:word', event => this.clicked(event.detail));
    this.small = make('div');
    this.small.addEventListener('regard:matrix', event => this.choose(this.heads[event.detail.index].options));
    this.every = make('details', {class: 'every', ontoggle: () => this.overview()}, make('summary', {}, 'All layers and heads'), this.small);
    this.element = make('section', {class: 'panel'},
      make('div', {class: 'top'}, this.run, make('span', {class: 'working', role: 'status'}, 'Working …'), this.close), this.facts, this.cards, this.problem, this.controls, this.every, this.picture);
  }

  changeRun() {
    const {examples} = this.about, next = this.page.facts(this.run.value), {state} = this.page;
    Object.assign(this.state, newPanel(next));
    const untouched = !state.text.trim() || examples.includes(state.text);
    if (untouched && state.panels.length === 1) Object.assign(state, {text: next.example, second: next.second_examples[0] ?? state.second, words: [], how: 'none'}); // an example of its own
    this.page.changed({asks: true});
  }

  /** Show these options; the server is asked only if they did not come with the last answer. */
  choose(change) {
    this.state.options = withOptions(this.about, this.state.options, change);
    this.page.changed({asks: !holds(this.answers[this.how], this.state.options), panel: this});
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
    const {text} = state, {run, options} = panel, {second: takesSecond, changes} = this.about;
    const second = takesSecond ? state.second ?? '' : null;
    const answer = (how, words) => this.page.answer({run, text, second, words, how, options}, signal);
    try {
      const found = text.trim() ? {none: await answer('none', [])} : {};
      signal.throwIfAborted();
      this.page.received(found.none ?? null);
      this.problem.textContent = '';
      if (this.page.state.words.length) {
        for (const how of changes) found[how] = await answer(how, this.page.state.words);
      }
      signal.throwIfAborted();
      this.answers = found;
      this.show(this.page.state);
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.answers = {};
      this.show(this.page.state);
      this.problem.textContent = error.message;
      if (this === this.page.panels[0]) this.page.received(null);
    }
    this.element.removeAttribute('aria-busy');
  }

  show(state) {
    const {runs} = this.page, run = this.about;
    this.element.setAttribute('aria-label', run.name);
    setOptions(this.run, runs.map(one => [one.name, one.name]), run.name);
    this.run.disabled = this.page.saved;
    this.close.hidden = this.page.saved || this.page.state.panels.length < 2;
    this.facts.textContent = [run.model, `${run.parameters.toLocaleString('en')} parameters`,
      run.score && `score ${run.score}`, run.map && `map ${run.map}`, !run.attends && 'without attention', ...run.facts].filter(Boolean).join(', ');
    if (run.audit && !this.page.saved) this.facts.append(' · ', make('a', {href: run.audit, target: '_blank', rel: 'noopener'}, 'its audit'));
    this.how = this.answers[state.how] ? state.how : 'none';
    this.drawCards();
    this.drawControls();
    this.draw();
  }

  drawCards() {
    const first = this.answers.none, focused = this.cards.contains(document.activeElement);
    this.cards.replaceChildren(...Object.entries(CHANGES).filter(([how]) => this.answers[how]).map(([how, name]) => {
      const answer = this.answers[how], {answer_words: words, change} = answer;
      return make('div', {
        class: 'card', role: 'radio', 'data-how': how, tabindex: how === this.how ? 0 : -1,
        'aria-checked': String(how === this.how), onclick: () => this.page.choose(how),
      },
      make('h3', {}, name), answerText(answer, answer === first ? words.map(() => false) : changed(first.answer_words, words)),
      first.probabilities.length ? probabilityBars(answer.probabilities, first.probabilities, this.page.saved ? null : text => this.page.type(text)) : '',
      make('p', {class: 'facts'}, this.remark(first, answer)), change ? make('p', {class: 'facts'}, change) : '');
    }));
    if (focused) this.cards.querySelector('[aria-checked="true"]')?.focus();
  }

  /** What a card says of its answer besides the answer. */
  remark(first, answer) {
    if (first.probabilities.length) return answer === first ? '' : probabilityChange(first, answer);
    const parts = answer === first ? [] : [differs(first.answer_words, answer.answer_words)];
    if (answer.log_prob !== null) parts.push(`probability ${decimals(Math.exp(answer.log_prob))}`);
    return parts.join('; ');
  }

  /** Arrow keys choose among the answers, as among radio buttons. */
  move(event) {
    const ways = [...this.cards.children].map(card => card.dataset.how), at = ways.indexOf(this.how);
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (event.key !== ' ' && event.key !== 'Enter' && !step) return;
    event.preventDefault();
    this.page.choose(ways[(at + (step ?? 0) + ways.length) % ways.length]);
  }

  /** A select for each control of the run; a saved page has the options that are in it. */
  drawControls() {
    const {saved} = this.page, run = this.about, answer = this.answers[this.how], {options} = this.state;
    this.controls.hidden = !answer?.view && !answer?.missing;
    if (this.drawnFor !== run) {
      this.drawnFor = run;
      this.controls.replaceChildren(...run.controls.map(({name, label, options: known}) => make('label', {'data-control': name}, `${label} `,
        make('select', {onchange: ({target}) => this.choose({[name]: known.find(([value]) => String(value ?? '') === target.value)[0]})}))));
    }
    run.controls.forEach((control, i) => {
      const label = this.controls.children[i], select = label.lastChild;
      const known = control.options.filter(([value]) => !saved || this.page.has(run.name, this.how, {...options, [control.name]: value}));
      label.hidden = !isActive(control, options);
      setOptions(select, known.map(([value, text]) => [value ?? '', text]), options[control.name] ?? '');
      select.disabled = known.length < 2;
    });
  }

  draw() {
    const answer = this.answers[this.how], view = answer?.view;
    this.every.hidden = view?.kind !== 'heat_map' || this.heads.length < 2;
    this.overview();
    const {side, index} = this.picture.contains(document.activeElement) ? document.activeElement.dataset : {};
    const word = side === 'source' ? this.columns[index] : undefined;
    if (!view) {
      this.picture.replaceChildren(answer?.missing ? make('p', {class: 'hint'}, answer.missing) : '');
      if (word !== undefined) this.page.focusWord(word);
      return;
    }
    const matrix = matrixOf(answer, this.state.options) ?? view.matrices[0];
    const selected = this.page.state.words.map(word => answer.columns.indexOf(word)).filter(at => at >= 0);
    const caption = [matrix.caption, answer.change].filter(Boolean).join(' ');
    regard.draw(this.picture, {...view, matrices: [matrix], title: '', caption}, {selected, mayClick: !this.page.saved});
    this.columns = answer.columns;
    if (word !== undefined) this.focusWord(word);
  }

  /** Focus this word of the text: in the picture, or where it is not in it any more, above. */
  focusWord(word) {
    const found = this.picture.querySelector(`[data-side=source][data-index="${this.columns.indexOf(word)}"]`);
    if (found) found.focus({preventScroll: true});
    else this.page.focusWord(word);
  }

  /** The matrices of single heads, or of layers where these have one; none where they did not all come. */
  get heads() {
    const {view, complete} = this.answers[this.how] ?? {};
    const matrices = view && complete ? view.matrices : [], single = matrices.filter(one => one.head !== null);
    return single.length ? single : matrices;
  }

  overview() {
    if (this.every.hidden || !this.every.open) return;
    const {view} = this.answers[this.how];
    const chosen = this.heads.findIndex(one => sameOptions(one.options, this.state.options));
    regard.draw(this.small, {...view, kind: 'heads', matrices: this.heads, title: '', caption: '', note: ''}, {mayClick: false, enlarge: false, chosen});
  }

  clicked({side, index}) {
    const word = this.answers[this.how].columns[index]; // none where columns are words of the answer
    if (side === 'source' && word !== undefined) this.page.toggle(word);
  }
}
