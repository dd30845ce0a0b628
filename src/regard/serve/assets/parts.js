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

const isPicture = text => text.startsWith('data:image/');
const SIDE = 384, LARGE = 150000; // pixels of a picture that is sent, and characters of it

/** A picture that was dropped or chosen, as a data URL: turned as its camera held it, and no larger than needed. */
async function readPicture(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, {imageOrientation: 'from-image'});
  } catch {
    throw new Error('This is not a picture that the browser can read.');
  }
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const sheet = make('canvas', {width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale))});
  const pen = sheet.getContext('2d');
  pen.fillStyle = '#fff';
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.drawImage(bitmap, 0, 0, sheet.width, sheet.height);
  const exact = sheet.toDataURL('image/png');
  return exact.length <= LARGE ? exact : sheet.toDataURL('image/jpeg', 0.85);
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
