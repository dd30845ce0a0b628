// Probabilities as bars, the most likely of the first answer on top, and a mark where each was then.
// Answers that are next tokens are buttons: the text goes on with the one that is clicked.

const MOST_LIKELY = 10; // answers that are shown; of more, those that were or are the most likely

function probabilityBars(now, first, goOn) {
  const before = new Map(first.map(({label, probability}) => [label, probability]));
  const most = ({label, probability}) => Math.max(probability, before.get(label) ?? 0);
  const kept = new Set([...now].sort((a, b) => most(b) - most(a)).slice(0, MOST_LIKELY));
  const rest = ({then}) => Number(then === null && now.some(one => one.then !== null)); // of many tokens: all others together
  const shown = now.filter(one => kept.has(one)).sort((a, b) => rest(a) - rest(b) || (before.get(b.label) ?? 0) - (before.get(a.label) ?? 0));
  const list = make('ul', {class: 'probabilities', 'aria-label': 'Probabilities'}, ...shown.map(({label, probability, then}) => {
    const bar = make('i'), mark = make('b', {hidden: now === first || !before.has(label)});
    bar.style.width = `${100 * probability}%`;
    mark.style.insetInlineStart = `${100 * (before.get(label) ?? 0)}%`;
    const was = now === first || !before.has(label) ? '' : ` (was ${decimals(before.get(label))})`;
    const name = then && goOn ? make('button', {type: 'button', title: 'go on with it', onclick: event => { event.stopPropagation(); goOn(then); }}, make('bdi', {}, label)) : make('bdi', {}, label);
    return make('li', {title: `${label}: ${decimals(probability)}${was}`}, name, make('span', {}, decimals(probability)),
      make('div', {class: 'bar', 'aria-hidden': 'true'}, bar, mark));
  }));
  const others = now.length - shown.length;
  if (others) list.append(make('li', {}, `and ${others} less likely`));
  return list;
}

/** Three decimals; what is almost 0 or 1 is not written as that. */
function decimals(p) {
  if (p > 0 && p < 0.0005) return '<0.001';
  return p < 1 && p >= 0.9995 ? '>0.999' : p.toFixed(3);
}

/** How an answer with probabilities changed: the first answer, then and now. */
function probabilityChange(first, answer) {
  if (!answer.probabilities.length) return 'nothing is left to read';
  const of = ({probabilities}) => { const p = probabilities.find(({label}) => label === first.answer)?.probability; return p === undefined ? 'not among the likely' : decimals(p); };
  const same = first.answer === answer.answer ? 'the same answer' : 'another answer';
  return `${same}; ${first.answer} ${of(first)} → ${of(answer)}`;
}
