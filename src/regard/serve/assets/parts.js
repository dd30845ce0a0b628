// Parts of the page. Text becomes text nodes and nothing else.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Options of a select, made anew only if they differ. */
function setOptions(select, options, chosen) {
  const wanted = options.map(([value, name]) => `${value}\n${name}`).join('\n\n');
  if (select.dataset.options !== wanted) {
    select.dataset.options = wanted;
    select.replaceChildren(...options.map(([value, name]) => make('option', {value}, name)));
  }
  select.value = chosen;
}

/** Which of the words b are new compared with a: those outside a longest common subsequence. */
function changed(a, b) {
  if (a.length * b.length > 1e6) return b.map((word, i) => word !== a[i]);
  const longest = Array.from({length: a.length + 1}, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const found = b.map(() => true);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { found[j] = false; i++; j++; }
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  }
  return found;
}

/** An answer as text, words that are new marked. Words stand as far apart as they do in the answer. */
function answerText({answer, answer_words: words}, marks) {
  const line = make('p', {class: 'answer', dir: 'auto'});
  let end = 0;
  words.forEach((word, i) => {
    const start = answer.indexOf(word, end);
    line.append(i && start !== end ? ' ' : '', marks[i] ? make('mark', {}, make('bdi', {}, word)) : make('bdi', {}, word));
    if (start >= 0) end = start + word.length;
  });
  if (!words.length) line.append(make('i', {}, 'nothing'));
  return line;
}

function differs(first, other) {
  const gained = changed(first, other).filter(Boolean).length;
  const lost = changed(other, first).filter(Boolean).length;
  if (!gained && !lost) return 'the same answer';
  return [gained && `${gained} new`, lost && `${lost} gone`].filter(Boolean).join(', ');
}
