// Probabilities as bars, the most likely of the first answer on top, and a mark where each was then.

const MOST_LIKELY = 10; // answers that are shown; of more, those that were or are the most likely

function probabilityBars(now, first) {
  const before = new Map(first.map(({label, probability}) => [label, probability]));
  const most = ({label, probability}) => Math.max(probability, before.get(label) ?? 0);
  const kept = new Set([...now].sort((a, b) => most(b) - most(a)).slice(0, MOST_LIKELY));
  const shown = now.filter(one => kept.has(one)).sort((a, b) => before.get(b.label) - before.get(a.label));
  const list = make('ul', {class: 'probabilities', 'aria-label': 'Probabilities'}, ...shown.map(({label, probability}) => {
    const bar = make('i'), mark = make('b', {hidden: now === first});
    bar.style.width = `${100 * probability}%`;
    mark.style.insetInlineStart = `${100 * before.get(label)}%`;
    const was = now === first ? '' : ` (was ${decimals(before.get(label))})`;
    return make('li', {title: `${label}: ${decimals(probability)}${was}`}, make('bdi', {}, label), make('span', {}, decimals(probability)),
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
  const of = ({probabilities}) => decimals(probabilities.find(({label}) => label === first.answer).probability);
  const same = first.answer === answer.answer ? 'the same answer' : 'another answer';
  return `${same}; ${first.answer} ${of(first)} → ${of(answer)}`;
}
