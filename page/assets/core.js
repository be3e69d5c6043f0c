// Elements, numbers in words, and the engine. Everything that comes from a profile enters the document as text.

/** The element `name` with attributes (functions become listeners) and children (texts or nodes; null is left out). */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(key, value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** A name out of a profile: whatever direction its letters run, the text around it keeps its own. */
const name = (text, attributes) => el('bdi', { class: 'name', ...attributes }, text);

/** `1234567` as `1,234,567`; a dash for none. */
const number = (value) => (value === null || value === undefined ? '–' : Math.round(value).toLocaleString('en-US'));

/** A ratio as a percentage with three significant digits, as the command prints it. */
function percent(ratio) {
  if (ratio === null || ratio === undefined || Number.isNaN(ratio)) return '–';
  const p = ratio * 100;
  const decimals = p >= 99.95 || p === 0 ? 0 : p >= 10 ? 1 : p >= 1 ? 2 : p >= 0.1 ? 3 : 4;
  return `${p.toFixed(decimals)} %`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Bytes with a binary unit, at most two decimals: `48 KiB`. */
function bytes(value) {
  if (value === null || value === undefined) return '–';
  let unit = 0;
  let scaled = value;
  while (scaled >= 1024 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${Number(scaled.toFixed(2))} ${UNITS[unit]}`;
}

/** Bytes as the command line takes them: `48K`; exact. */
function size(value) {
  for (const [letter, unit] of [['G', 2 ** 30], ['M', 2 ** 20], ['K', 2 ** 10]]) {
    if (value >= unit && (value / unit) * 4 % 1 === 0) return `${value / unit}${letter}`;
  }
  return String(value);
}

/** Bytes of `48K`, `1.5M` or `300`, as the command reads them; NaN for anything else. */
function parseSize(text) {
  const match = /^\s*(\d+(?:\.\d*)?)\s*(?:([kmgt])i?)?b?\s*$/i.exec(text);
  if (!match) return NaN;
  const value = Number(match[1]) * { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 }[(match[2] ?? '').toLowerCase()];
  return Number.isInteger(value) && value > 0 ? value : NaN;
}

/** The last two parts of a path, and a line of it. */
const place = (file, line) => (file ? file.split('/').slice(-2).join('/') + (line > 0 ? `:${line}` : '') : '');

/** The bytes that base64 text stands for. */
const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** The module that answers: `postproc` as WebAssembly. */
class Engine {
  #exports;

  /** Starts the engine from its module, compressed by gzip. */
  static async start(packed) {
    const engine = new Engine();
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
    const module = await new Response(unpacked).arrayBuffer();
    engine.#exports = (await WebAssembly.instantiate(module, {})).instance.exports;
    return engine;
  }

  #call(entry, input) {
    const { memory, bf_input, bf_output, bf_output_length } = this.#exports;
    const at = bf_input(input.length);
    new Uint8Array(memory.buffer, at, input.length).set(input);
    this.#exports[entry]();
    const output = new Uint8Array(memory.buffer, bf_output(), bf_output_length());
    const answer = JSON.parse(new TextDecoder().decode(output));
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  /** Takes in the bytes of a profile. Throws the sentence that says what is wrong with them. */
  load(profile) {
    return this.#call('bf_load', profile);
  }

  /** Answers a question of `page/src/ask.rs`. Throws the sentence that refuses it. */
  ask(question) {
    return this.#call('bf_ask', new TextEncoder().encode(JSON.stringify(question)));
  }
}

/** Calls `action` once things have been quiet for so many milliseconds. */
function settled(action, quiet) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, quiet);
  };
}

/** A labelled select; `choices` are [value, text] pairs. */
function select(label, choices, value, change) {
  const control = el('select', { change: () => change(control.value) });
  const labelled = el('label', { class: 'control' }, el('span', null, label), control);
  offer(labelled, choices, value);
  return labelled;
}

/** Gives a labelled select its choices. One that has them already may be open: it is left as it is. */
function offer(labelled, choices, value) {
  const control = labelled.querySelector('select');
  const same = control.length === choices.length && choices.every(([key, text], at) => control[at].value === key && control[at].textContent === text);
  if (!same) control.replaceChildren(...choices.map(([key, text]) => el('option', { value: key }, text)));
  if (control.value !== value) control.value = value;
}

/** A group of buttons of which one is chosen; `choices` are [value, text] pairs. */
function choice(label, choices, value, change) {
  const group = `choice-${label.replaceAll(/\W+/g, '-')}-${(choice.count = (choice.count ?? 0) + 1)}`;
  const buttons = choices.map(([key, text]) => {
    const input = el('input', { type: 'radio', name: group, value: key, checked: key === value, change: () => change(key) });
    return el('label', null, input, el('span', null, text));
  });
  return el('fieldset', { class: 'choice' }, el('legend', null, label), buttons);
}

/** A table from headers and rows of cells (texts, nodes, or attributes with `content`); first cells head their rows. */
function table(caption, headers, rows, attributes) {
  const cell = (kind, content, extra) => {
    const { content: inner, ...own } = content !== null && content?.content !== undefined ? content : { content };
    return el(kind, { ...extra, ...own }, inner);
  };
  const head = el('tr', null, headers.map((header) => cell('th', header, { scope: 'col' })));
  const body = rows.map((row) =>
    el('tr', null, row.map((content, at) => (at === 0 ? cell('th', content, { scope: 'row' }) : cell('td', content)))));
  const inner = el('table', attributes, el('caption', null, caption), el('thead', null, head), el('tbody', null, body));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, inner);
}
