// The hierarchy with its sliders, and what it does.

/** The controls of one level. */
function levelControls(level, at) {
  const id = `level-${at}`;
  const sizeText = el('input', { type: 'text', id: `${id}-size`, value: size(level.size), size: 7, autocomplete: 'off', spellcheck: 'false', 'aria-label': `${level.name} size, such as 48K` });
  const sizeSlider = el('input', { type: 'range', min: 0, max: SIZES.length - 1, value: nearest(SIZES, level.size), 'aria-label': `${level.name} size`, 'data-control': 'size' });
  const ways = WAYS.includes(level.ways) ? WAYS : [...WAYS.slice(0, -1), level.ways].sort((a, b) => a - b).concat('full');
  const waysSlider = el('input', { type: 'range', min: 0, max: ways.length - 1, value: ways.indexOf(level.ways), 'aria-label': `${level.name} ways`, 'data-control': 'ways' });
  const waysText = el('output', { class: 'figure' });
  const show = () => {
    sizeText.value = level.typed ?? size(level.size);
    sizeText.setAttribute('aria-invalid', String(Number.isNaN(parseSize(sizeText.value))));
    sizeSlider.setAttribute('aria-valuetext', bytes(level.size));
    waysText.textContent = level.ways === 'full' ? 'full' : `${level.ways}-way`;
    waysSlider.setAttribute('aria-valuetext', level.ways === 'full' ? 'fully associative' : `${level.ways} ways`);
  };
  const put = (change) => {
    Object.assign(level, change);
    state.origin = '';
    show();
    changed();
  };
  // What a level cannot have with its ways and line is rounded; what was aimed at is kept for the next change of them.
  const fit = (change) => {
    const wanted = { ...level, aim: level.aim ?? level.size, typed: null, ...change };
    put({ ...wanted, size: possible(wanted, wanted.aim) });
  };
  sizeSlider.addEventListener('input', () => fit({ aim: SIZES[sizeSlider.value] }));
  sizeText.addEventListener('change', () => {
    const value = parseSize(sizeText.value);
    if (Number.isNaN(value)) {
      // The answer says what is wrong with it.
      put({ typed: sizeText.value });
      return;
    }
    sizeSlider.value = nearest(SIZES, value);
    put({ aim: value, size: value, typed: null });
  });
  waysSlider.addEventListener('input', () => fit({ ways: ways[waysSlider.value] }));
  show();
  // A machine's line size need not be one that the profiles have.
  const sizes = [...new Set([...state.profiles.flatMap((profile) => profile.line_sizes), level.line ?? []].flat())].sort((a, b) => a - b);
  const lines = sizes.length > 1
    ? select('Line', [['', 'usual'], ...sizes.map((line) => [String(line), `${line} B`])], String(level.line ?? ''), (line) => fit({ line: line === '' ? null : Number(line) }))
    : null;
  const hashed = el('input', { type: 'checkbox', checked: level.hashed, change: () => put({ hashed: hashed.checked }) });
  const remove = el('button', { type: 'button', class: 'quiet', disabled: state.levels.length === 1, 'aria-label': `Remove ${level.name}`, click: () => {
    state.levels.splice(at, 1);
    state.origin = '';
    showLevels();
    changed();
    document.getElementById('levels').children[Math.min(at, state.levels.length - 1)].querySelector('input').focus();
  } }, 'Remove');
  return el('fieldset', { class: 'level', 'data-level': level.name },
    el('legend', null, name(level.name)),
    el('label', { class: 'slide' }, el('span', null, 'Size'), sizeSlider), sizeText,
    el('label', { class: 'slide' }, el('span', null, 'Ways'), waysSlider), waysText,
    el('div', { class: 'options' },
      select('Used by', [['private', 'each thread'], ['shared', 'all threads']], level.scope, (scope) => put({ scope })),
      lines,
      el('label', { class: 'control', title: 'Lines land in sets as if at random, as in sliced last-level caches' }, hashed, el('span', null, 'hashed index')),
      remove));
}

/** Fills the list of levels again; after it the controls are other elements. */
function showLevels() {
  document.getElementById('levels').replaceChildren(...state.levels.map(levelControls));
}

/** Adds a level below the last: eight times as large. */
function addLevel() {
  const last = state.levels.at(-1);
  const numbers = state.levels.map((level) => Number(/^L(\d+)$/.exec(level.name)?.[1] ?? 0));
  const level = { ...last, name: `L${Math.max(state.levels.length, ...numbers) + 1}`, exclusive: false, typed: null };
  state.levels.push({ ...level, size: possible(level, Math.min(last.size * 8, SIZES.at(-1))) });
  state.origin = '';
  showLevels();
  changed();
}

/** Hierarchies to begin from: the machines the profiles ran on, and the presets. */
function starts() {
  const machines = state.profiles.flatMap((profile) => profile.hierarchies ?? []);
  const seen = new Map([...machines, ...state.data.presets].map((machine) => [machine.label, machine]));
  return [...seen.values()].filter((machine) => machine.levels.length > 0);
}

/** Rows of the answer: what they are called, and the cell of a level with the exact figure behind it. */
const FIGURES = [
  ['ways × sets', (level) => `${number(level.ways)} × ${number(level.sets)}`],
  ['line', (level) => bytes(level.line_bytes), 'sub'],
  ['rule', (level) => level.model + (level.sampled ? ', sampled' : level.exact ? ', exact' : '')],
  ['accesses', 'references'], ['hits', 'hits'], ['misses', 'misses'],
  ['95 % interval', (level) => (level.sampled ? `${number(level.sampled.misses.low)} – ${number(level.sampled.misses.high)}` : '–'), 'sub'],
  ['of its accesses', (level) => percent(level.local_miss_ratio), 'sub'],
  ['of all references', (level) => percent(level.global_miss_ratio), 'sub'],
  ['cold', 'cold', 'sub'], ['coherence', 'coherence', 'sub'], ['capacity', 'capacity', 'sub'], ['conflict', 'conflict', 'sub'],
  ['write-backs', 'writebacks'],
  ['traffic below', (level) => bytes(level.traffic_bytes)],
];

/** The answers side by side: for each level a column, for each of several profiles one below it. */
function answerTable(answers) {
  const several = answers.length > 1;
  const columns = answers[0].answer.levels.flatMap((_, at) => answers.map(({ profile, answer }) => ({ profile, level: answer.levels[at] })));
  const headers = ['', ...columns.map(({ profile, level }) => ({
    content: [name(level.name), el('small', null, several ? [profile.short, el('br')] : null, bytes(level.size_bytes))],
  }))];
  const shown = FIGURES.filter(([title]) => (title === 'coherence' ? columns.some(({ level }) => level.coherence !== null)
    : title !== '95 % interval' || columns.some(({ level }) => level.sampled)));
  const rows = shown.map(([title, figure, kind]) => [
    { content: title, class: kind },
    ...columns.map(({ profile, level }) => (typeof figure === 'string'
      ? { content: number(level[figure]), 'data-figure': figure, 'data-level': level.name, 'data-profile': profile.number, 'data-value': level[figure] }
      : figure(level))),
  ]);
  return table('What the hierarchy does', headers, rows, { class: 'figures', id: 'answer' });
}

/** Kinds of misses, in the order they are stacked. */
const KINDS = ['cold', 'coherence', 'capacity', 'conflict'];

/** The misses of each level by kind, as shares of a bar. */
function kindsFigure(answers) {
  const bars = () => answers().flatMap(({ profile, answer }) => answer.levels.map((level) => ({
    level, label: answers().length > 1 ? `${level.name} ${profile.short}` : level.name,
    parts: level.capacity === null ? [['not told apart', level.misses - level.cold], ['cold', level.cold]].reverse()
      : KINDS.map((kind) => [kind, level[kind] ?? 0]),
  })));
  return figure('Misses by kind', 'misses-by-kind', {
    // The answers are there already: the table needs them too.
    ask() {},
    draw(width, colours) {
      const all = bars();
      const names = [...KINDS, 'not told apart'].filter((kind) => all.some(({ parts }) => parts.some(([part, count]) => part === kind && count > 0)));
      const colour = (kind) => (kind === 'not told apart' ? colours.rule : colours.kinds[KINDS.indexOf(kind)]);
      const entries = names.map((label) => ({ label, colour: colour(label), box: true }));
      const marginLeft = Math.min(24 + 7 * Math.max(...all.map(({ label }) => label.length)), 0.4 * width);
      const top = layLegend(entries, width, marginLeft);
      const parts = all.flatMap(({ label, level, parts }) => parts.filter(([, count]) => count > 0)
        .map(([kind, count]) => ({ label, kind, share: count / level.misses, count })));
      const svg = Plot.plot({
        ...base(colours, width, top + 30 * all.length + 46), marginTop: top, marginLeft, marginRight: 110, marginBottom: 40,
        x: { domain: [0, 100], label: "share of the level's misses (%)", labelAnchor: 'center', labelArrow: 'none', ticks: 5 },
        y: { domain: all.map(({ label }) => label), label: null, tickSize: 0, tickFormat: (label) => fitted(label, marginLeft - 16), padding: 0.35 },
        color: { domain: names, range: names.map(colour) },
        marks: [
          Plot.barX(parts, Plot.stackX({ x: (d) => d.share * 100, y: 'label', fill: 'kind', order: names })),
          Plot.text(all, { x: 100, y: 'label', text: ({ level }) => number(level.misses), textAnchor: 'start', dx: 8, fill: colours.quiet }),
        ],
      });
      drawLegend(svg, entries, colours);
      return svg;
    },
    numbers: () => table('Misses by kind', ['level', 'kind', 'misses'], bars().flatMap(({ label, parts }) => parts.map(([kind, count]) => [label, kind, number(count)]))),
    describe: () => bars().map(({ label, level }) => `${label}: ${number(level.misses)} misses, ${percent(level.global_miss_ratio)} of all references`).join('; ') + '.',
  });
}

/** The section. */
function whatIf() {
  let answers = [];
  const result = el('div', { id: 'result' });
  // Said by screen readers once a slider has come to rest.
  const spoken = el('p', { class: 'spoken', role: 'status' });
  state.slow.push(() => {
    spoken.textContent = answers.flatMap(({ profile, answer: { levels } }) => levels.map((level) =>
      `${answers.length > 1 ? `${profile.short}, ` : ''}${level.name}: ${percent(level.global_miss_ratio)} of references miss`)).join('; ');
  });
  const command = el('code', { id: 'command' });
  const kinds = kindsFigure(() => answers);
  const choices = starts().map((machine, at) => [String(at), machine.label]);
  const start = select('Begin from', [['', 'choose …'], ...choices], '', (at) => {
    if (at === '') return;
    const machine = starts()[Number(at)];
    state.levels = machine.levels.map(fromData);
    state.origin = machine.label;
    showLevels();
    changed();
  });
  const key = (tags) => JSON.stringify(tags);
  const named = new Map([[key([]), 'all']]);
  for (const profile of state.profiles) {
    for (const { label, tags } of parts(profile)) {
      if (named.has(key(tags))) continue;
      // Slices of the same number may be made up of other tags.
      const taken = [...named.values()].includes(`of ${label}`);
      named.set(key(tags), `of ${taken ? `${label}, ${profile.short}` : label}`);
    }
  }
  // Those asked for on the command line may be several.
  if (!named.has(key(state.tags))) named.set(key(state.tags), `of ${state.tags.map(tagLabel).join(', ')}`);
  const tag = named.size > 1
    ? select('References', [...named], key(state.tags), (chosen) => {
      state.tags = JSON.parse(chosen);
      changed();
    }) : null;
  const answer = () => {
    const files = state.profiles.flatMap((profile) => profile.paths.map((path) => quote(path.startsWith('-') ? `./${path}` : path)));
    const asked = [...state.tags.flatMap((text) => ['--tag', quote(text)]), ...state.levels.map((level) => `--cache ${quote(spec(level))}`)];
    command.textContent = `bf query${state.profiles.length > 1 ? ' --each' : ''} ${[...files, ...asked].join(' ')}`;
    try {
      answers = state.profiles.map((profile) => ({ profile, answer: askQuery(profile) }));
    } catch (refusal) {
      result.replaceChildren(el('p', { class: 'refusal', role: 'alert' }, refusal.message));
      kinds.hidden = true;
      answers = [];
      return;
    }
    const notes = answers.flatMap(({ profile, answer: { levels } }) => levels.filter((level) => level.note)
      .map((level) => el('li', null, name(answers.length > 1 ? `${level.name}, ${profile.short}` : level.name), `: ${level.note}.`)));
    const below = answers[0].answer.levels.length > 1
      ? [el('li', null, 'Levels below the first are fed with all references, not only with the misses above them.')] : [];
    result.replaceChildren(answerTable(answers), el('ul', { class: 'notes' }, below, notes));
    kinds.hidden = false;
    kinds.refresh();
  };
  state.quick.push(answer);
  return el('section', { id: 'whatif', 'aria-labelledby': 'whatif-h' },
    el('h2', { id: 'whatif-h' }, 'What if'),
    el('p', null, 'Any hierarchy of data caches, answered in this page from the histograms of the run. Move a slider; nothing is estimated unless a note says so.'),
    el('div', { class: 'toolbar' }, start, tag, el('button', { type: 'button', click: addLevel }, 'Add a level')),
    el('div', { id: 'levels' }),
    result, spoken, kinds,
    el('details', null, el('summary', null, 'The same on the command line'), el('p', { class: 'scroll' }, command)));
}

/** A word of a command line, quoted where a shell would take it apart. */
const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
