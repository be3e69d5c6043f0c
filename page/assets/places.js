// Whose misses they are: functions, lines and loops, the source beside its figures, and the tags.

/** Rows shown before the reader asks for all. */
const FEW = 20;

/** A figure that rows can be sorted by, in words. */
const FIGURE_WORDS = { misses: 'misses', load_misses: 'misses of loads', store_misses: 'misses of stores', writebacks: 'write-backs' };

/** A count with a bar behind it for its share of the whole. */
const share = (count, all) => ({
  content: [number(count), ' ', el('small', null, percent(all > 0 ? count / all : null))],
  class: 'share', style: `--share:${all > 0 ? ((count / all) * 100).toFixed(2) : 0}%`,
});

/** The choice between several profiles, where there are any. */
const whose = (change) => (state.profiles.length < 2 ? null
  : select('Profile', state.profiles.map((profile, at) => [String(at), profile.label]), String(state.current), (at) => change(Number(at))));

/** What a row of a breakdown is called. */
function rowName(row, by) {
  if (by === 'loop') return row.depth > 0 ? `${row.short} (loop, depth ${row.depth})` : `${row.short} (in no loop)`;
  if (by === 'line' && row.merged) return `${row.short} (several lines)`;
  return row.short;
}

/** The section of functions, lines and loops, with the annotated source. */
function places() {
  const chosen = { by: 'function', sort: '', all: false, file: '', line: 0, whole: false };
  const rows = el('div');
  // Made once, as all that is chosen with: what is replaced loses the keyboard.
  const heading = el('h3', { tabindex: '-1' });
  const pick = select('File', [], '', (file) => {
    Object.assign(chosen, { file, line: 0, whole: false });
    annotated();
  });
  const text = el('div');
  const source = el('div', { id: 'source' }, heading, pick, text);
  const sorts = select('Sorted by', [], '', (sort) => {
    chosen.sort = sort;
    breakdown();
  });
  const profile = () => state.profiles[state.current];
  const question = () => ({ profile: profile().number, caches: state.levels.map(spec), tags: state.tags });
  const showSource = (file, line) => {
    Object.assign(chosen, { file, line, whole: false });
    annotated();
    source.scrollIntoView({ block: 'nearest' });
    heading.focus({ preventScroll: true });
  };
  const refuse = (target, refusal) => target.replaceChildren(el('p', { class: 'refusal' }, refusal.message));

  const breakdown = () => {
    let answer;
    try {
      // What a level's answer has no figure of, its rows have none of.
      const sortable = askQuery(profile()).levels.flatMap((level) => Object.entries(FIGURE_WORDS).filter(([figure]) => level[figure] !== null)
        .map(([figure, words]) => [`${level.name}.${figure}`, `${level.name} ${words}`]));
      if (!sortable.some(([key]) => key === chosen.sort)) chosen.sort = `${state.levels.at(-1).name}.misses`;
      offer(sorts, sortable, chosen.sort);
      answer = state.engine.ask({ ask: 'by', ...question(), by: chosen.by, sort: chosen.sort, top: chosen.all ? 1_000_000 : FEW });
    } catch (refusal) {
      refuse(rows, refusal);
      return;
    }
    const level = state.levels.map((other) => `${other.name}.misses`);
    const body = answer.items.map((row) => [
      name(rowName(row, chosen.by), { title: row.short === row.name ? row.linkage_name : row.name }),
      row.file ? el('button', { type: 'button', class: 'link', title: `${row.file}:${row.line}`, click: () => showSource(row.file, row.line) }, name(place(row.file, row.line))) : '',
      number(row.load_references + row.store_references),
      ...level.map((figure) => share(row[figure], answer.totals[figure])),
    ]);
    const headers = [{ function: 'function', line: 'function', loop: 'loop of function', object: 'object' }[chosen.by], 'where', 'references', ...state.levels.map((other) => [name(other.name), ' misses'])];
    const more = answer.all > answer.items.length
      ? el('button', { type: 'button', click: () => { chosen.all = true; breakdown(); rows.firstChild.focus({ preventScroll: true }); } }, `Show all ${number(answer.all)}`) : null;
    rows.replaceChildren(table(`Misses by ${chosen.by}`, headers.map((content) => ({ content })), body, { class: 'figures', id: 'places-table' }), more ?? '');
  };

  const annotated = () => {
    const files = profile().sources ?? [];
    heading.hidden = pick.hidden = files.length === 0;
    if (files.length === 0) {
      text.replaceChildren(el('p', null, 'No source text is in this report: none of the files that figures belong to could be read when it was written. Compile with -g, and write the report where the sources are.'));
      return;
    }
    const file = files.find((other) => other.path === chosen.file);
    heading.replaceChildren(file ? name(file.path) : 'Source');
    offer(pick, [...(file ? [] : [['', 'choose …']]), ...files.map((other) => [other.path, place(other.path)])], file ? file.path : '');
    if (!file) {
      const why = chosen.file === '' ? 'Choose a file, or a place in the table above.' : `The text of ${chosen.file} is not in this report.`;
      text.replaceChildren(el('p', null, why));
      return;
    }
    let answer;
    try {
      answer = state.engine.ask({ ask: 'lines', ...question(), file: chosen.file });
    } catch (refusal) {
      refuse(text, refusal);
      return;
    }
    const shown = sourceTable(file, answer, chosen, () => {
      chosen.whole = true;
      annotated();
      text.firstChild.focus({ preventScroll: true });
    });
    text.replaceChildren(shown);
    const here = shown.querySelector('.here');
    if (here) shown.scrollTop = here.offsetTop - shown.clientHeight / 3;
  };

  const show = () => {
    breakdown();
    if (chosen.file === '') chosen.file = profile().sources?.[0]?.path ?? '';
    annotated();
  };
  const section = el('section', { id: 'places', 'aria-labelledby': 'places-h' }, el('h2', { id: 'places-h' }, 'Where misses come from'));
  if (!state.profiles.some((other) => other.by_place)) {
    section.append(el('p', null, 'The profile was not recorded by place. Compile with -bf-by-func -g, or run with BF_BY_PLACE=1, and functions, lines and loops are shown here.'));
    return section;
  }
  state.slow.push(show);
  section.append(
    el('p', null, 'The misses of the hierarchy above, by the code whose references they are. A place leads to its source.'),
    el('div', { class: 'toolbar' },
      whose((at) => {
        Object.assign(chosen, { file: '', all: false });
        state.current = at;
        show();
      }),
      choice('By', [['function', 'function'], ['line', 'line'], ['loop', 'loop'], ['object', 'object']], 'function', (by) => {
        Object.assign(chosen, { by, all: false });
        breakdown();
      }), sorts),
    rows, source);
  return section;
}

/** The line to show first: the one chosen or the next that is there, else the one with most of the figure sorted by. */
function firstLine(text, answer, chosen) {
  // Line 0 has what is only known to be in the file.
  const lines = Object.keys(answer.lines).map(Number).filter((line) => line > 0);
  const wanted = chosen.line || (d3.greatest(lines, (line) => answer.lines[line][chosen.sort]) ?? 0);
  const after = text.excerpts.find(({ first, lines }) => first + lines.length > wanted);
  return after && wanted > 0 ? Math.max(after.first, wanted) : 0;
}

/** Lines shown on each side of the first before the reader asks for all. */
const NEAR = 250;

/** A file with the figures of its lines. Between excerpts stands a row of dots. */
function sourceTable(text, answer, chosen, showAll) {
  const start = firstLine(text, answer, chosen);
  const every = text.excerpts.flatMap(({ first, lines }) => lines.map((line, at) => [first + at, line]));
  const middle = Math.max(0, every.findIndex(([number]) => number === start));
  const shown = chosen.whole ? every : every.slice(Math.max(0, middle - NEAR), middle + NEAR);
  const levels = state.levels.map((level) => `${level.name}.misses`);
  const body = el('tbody');
  let before = 0;
  for (const [at, line] of shown) {
    if (at > before + 1) body.append(el('tr', { class: 'gap' }, el('td', { colspan: levels.length + 3 }, '⋯')));
    before = at;
    const figures = answer.lines[at];
    const cells = figures
      ? [el('td', null, number(figures.load_references + figures.store_references)), levels.map((figure) => {
        const { content, ...rest } = share(figures[figure], answer.totals[figure]);
        return el('td', rest, content[0]);
      })]
      : [el('td'), levels.map(() => el('td'))];
    body.append(el('tr', { class: at === start ? 'here' : null }, el('th', { scope: 'row' }, String(at)), cells, el('td', { class: 'code' }, el('code', null, line || ' '))));
  }
  if (shown.length < every.length) {
    const more = el('button', { type: 'button', click: showAll }, `Show all ${number(every.length)} lines`);
    body.append(el('tr', { class: 'gap' }, el('td', { colspan: levels.length + 3 }, more)));
  }
  const heads = ['line', 'references', ...state.levels.map((level) => `${level.name} misses`), 'source'];
  return el('div', { class: 'scroll tall', tabindex: '0', role: 'region', 'aria-label': `Source of ${text.path}` },
    el('table', { class: 'figures source', id: 'source-table' }, el('thead', null, el('tr', null, heads.map((head) => el('th', { scope: 'col' }, head)))), body));
}

/** The section of tags: what ran under each of them. */
function byTag() {
  const tagged = state.profiles.filter((profile) => parts(profile).length > 0);
  if (tagged.length === 0) return null;
  const rows = el('div');
  const show = () => {
    try {
      const body = tagged.flatMap((profile) => {
        const all = askQuery(profile, { tags: [] });
        return parts(profile).map(({ label, tags }) => {
          const answer = askQuery(profile, { tags });
          return [name(tagged.length > 1 ? `${label}, ${profile.short}` : label), share(answer.references, all.references), ...answer.levels.map((level, at) => share(level.misses, all.levels[at].misses))];
        });
      });
      rows.replaceChildren(table('By tag', ['tag', 'references', ...state.levels.map((level) => `${level.name} misses`)], body, { class: 'figures' }));
    } catch (refusal) {
      rows.replaceChildren(el('p', { class: 'refusal' }, refusal.message));
    }
  };
  state.slow.push(show);
  return el('section', { id: 'tags', 'aria-labelledby': 'tags-h' }, el('h2', { id: 'tags-h' }, 'Phases'),
    el('p', null, 'What ran under each tag of bf_tag(), and in each slice of time of BF_PHASES: its references and misses, and what part of all they are.'), rows);
}
