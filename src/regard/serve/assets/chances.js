// The probabilities of the classes as bars, the likeliest of the first answer on top, and a mark where each was then.

const CHANCES = 10; // classes that are shown; of more, those that were or are the likeliest

function chances(now, first) {
  const before = new Map(first.map(({label, probability}) => [label, probability]));
  const most = ({label, probability}) => Math.max(probability, before.get(label) ?? 0);
  const kept = new Set([...now].sort((a, b) => most(b) - most(a)).slice(0, CHANCES));
  const shown = now.filter(one => kept.has(one)).sort((a, b) => before.get(b.label) - before.get(a.label));
  const list = make('ul', {class: 'chances', 'aria-label': 'Probabilities'}, ...shown.map(({label, probability}) => {
    const bar = make('i'), mark = make('b', {hidden: now === first});
    bar.style.width = `${100 * probability}%`;
    mark.style.insetInlineStart = `${100 * before.get(label)}%`;
    const was = now === first ? '' : ` (was ${chance(before.get(label))})`;
    return make('li', {title: `${label}: ${chance(probability)}${was}`}, make('bdi', {}, label), make('span', {}, chance(probability)),
      make('div', {class: 'bar', 'aria-hidden': 'true'}, bar, mark));
  }));
  const others = now.length - shown.length;
  if (others) list.append(make('li', {}, `and ${others} less likely`));
  return list;
}

/** Three decimals; what is almost 0 or 1 is not written as that. */
function chance(p) {
  if (p > 0 && p < 0.0005) return '<0.001';
  return p < 1 && p >= 0.9995 ? '>0.999' : p.toFixed(3);
}

/** How the answer of a classifier changed: its first class, then and now. */
function judgedAnew(first, answer) {
  if (!answer.probabilities.length) return 'nothing is left to read';
  const of = ({probabilities}) => chance(probabilities.find(({label}) => label === first.answer).probability);
  const same = first.answer === answer.answer ? 'the same class' : 'another class';
  return `${same}; ${first.answer} ${of(first)} → ${of(answer)}`;
}
