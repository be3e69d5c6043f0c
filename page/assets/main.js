// Puts the page together: reads the data, starts the engine, builds the sections.

/** A fact about a run; nothing for none. */
const fact = (title, content) => (content === null || (content.textContent ?? content) === '' ? []
  : [el('div', null, el('dt', null, title), el('dd', null, content))]);

/** What is different of these texts; of many the first. */
function different(texts) {
  const all = [...new Set(texts)];
  return all.slice(0, 4).join(', ') + (all.length > 4 ? ` and ${number(all.length - 4)} more` : '');
}

/** How a process ended, in words. */
function ending({ end, signal, elapsed_ns: elapsed }) {
  const after = `after ${(elapsed / 1e9).toFixed(2)} s`;
  return {
    exit: `exit ${after}`, replay: 'replayed from a trace', signal: `killed by signal ${signal} ${after}`,
    quick_exit: `_exit or quick_exit ${after}`, exec: `replaced by another program ${after}`,
    checkpoint: `unknown: this is a checkpoint, written ${after}`,
  }[end] ?? end;
}

/** The facts about one profile. */
function facts(profile) {
  const { processes } = profile.report;
  const [first] = processes;
  const sum = (key) => processes.reduce((total, process) => total + process[key], 0);
  const sampled = processes.find((process) => process.sampled);
  const callees = new Map();
  for (const { function: called, calls } of processes.flatMap((process) => process.uninstrumented)) callees.set(called, (callees.get(called) ?? 0) + calls);
  const unseen = [...callees].sort(([, a], [, b]) => b - a).slice(0, 8).map(([called, calls]) => `${called} ${number(calls)}`);
  if (callees.size > 8) unseen.push(`${number(callees.size - 8)} more ${callees.size > 9 ? 'functions' : 'function'}`);
  const calls = sum('uninstrumented_calls');
  return el('dl', { class: 'facts' },
    fact('command', name(different(processes.map(({ command }) => command.join(' '))))),
    fact('file', name(profile.paths.join(', '))),
    fact('processes', processes.length > 1 ? number(processes.length) : null),
    fact('machine', name([first.cpu, first.host].filter((text) => text).join(', on '))),
    fact('ended', processes.length > 1 ? null : ending(first)),
    fact('recorded', `${number(sum('accesses'))} accesses by ${number(sum('threads'))} ${sum('threads') === 1 ? 'thread' : 'threads'}, ${profile.line_sizes.length > 0 ? `in lines of ${profile.line_sizes.join(', ')} bytes`
      : 'without reuse distances (-bf-counters-only or BF_LINE_SIZE=none): caches cannot be asked about; bf report says what was counted'}`),
    fact('sampled', sampled ? `one line in ${Math.round(1 / sampled.sampled)} was followed: figures are estimates with intervals` : null),
    fact('dropped', sum('dropped') > 0 ? `${number(sum('dropped'))} accesses: the figures are too low` : null),
    fact('not seen', calls > 0 ? name(`${number(calls)} calls into code not compiled with bf-clang: ${unseen.join(', ')}`) : null),
    fact('addresses', processes.some((process) => process.aslr) ? 'randomised: set-associative figures differ a little from run to run' : null));
}

/** What the runtime and the command remarked about a profile. */
function remarks(profile) {
  const lines = [...profile.remarks, ...(profile.report.refused ?? []), ...profile.report.processes.flatMap((process) => process.log)];
  return lines.length > 0 ? el('ul', { class: 'notes' }, lines.slice(0, 20).map((line) => el('li', null, name(line))),
    lines.length > 20 ? el('li', null, `and ${lines.length - 20} more`) : null) : null;
}

/** The section that says what ran. */
function overview() {
  const runs = state.profiles.map((profile) => el('div', { class: 'run' },
    state.profiles.length > 1 ? el('h3', null, name(profile.label)) : null, facts(profile), remarks(profile)));
  return el('section', { id: 'overview', 'aria-labelledby': 'overview-h' }, el('h2', { id: 'overview-h' }, 'Overview'), runs);
}

/** The largest figures of a profile, in the head of the page. */
function headline(profile) {
  let levels = [];
  try {
    levels = askQuery(profile).levels;
  } catch {
    // The sections say why; a head without figures is still a head.
  }
  const accesses = profile.report.processes.reduce((total, process) => total + process.accesses, 0);
  const tile = (value, title) => el('div', { class: 'tile' }, el('strong', null, value), el('span', null, title));
  return el('div', { class: 'tiles' },
    state.profiles.length > 1 ? tile(name(profile.short), 'profile') : null,
    tile(number(accesses), 'accesses'),
    levels.map((level) => tile(percent(level.global_miss_ratio), [`of references miss ${level.name} (`, bytes(level.size_bytes), ')'])));
}

/** The last parts of each path that no other one ends in; one that is given again has a number. */
function ends(paths) {
  const end = (path, parts) => path.split('/').slice(-parts).join('/');
  return paths.map((path, at) => {
    const again = paths.slice(0, at).filter((other) => other === path).length;
    let parts = 1;
    while (paths.some((other) => other !== path && end(other, parts) === end(path, parts)) && end(path, parts) !== path) parts += 1;
    return end(path, parts) + (again > 0 ? ` (${again + 1})` : '');
  });
}

/** Labels that tell profiles apart: the program's name, and the file's where programs are the same. */
function label(profiles) {
  const programs = profiles.map(({ report, paths }) => different(report.processes.map(({ executable }) => (executable || paths[0]).split('/').at(-1))) || paths[0]);
  const files = ends(profiles.map((profile) => profile.paths[0]));
  const same = new Set(programs).size < programs.length;
  profiles.forEach((profile, at) => {
    profile.short = same ? files[at] : programs[at];
    profile.label = profiles.length > 1 ? `${programs[at]} (${profile.paths.join(', ')})` : programs[at];
  });
}

/** Everything the page says about itself, at its end. */
function about() {
  return [
    el('p', null, `Written by bf ${state.data.version}. This page is one file and asks nothing of any network. Hierarchies are answered by the code of bf query, compiled to WebAssembly; every figure is defined in bf's docs/model.md.`),
    el('details', null, el('summary', null, 'Licences of what is in this page'), el('pre', null, state.data.licences)),
  ];
}

/** Looks from time to time whether the profiles have changed, where a server is there to ask. */
function watch() {
  if (!state.data.watch) return;
  const note = el('p', { class: 'changed', role: 'status', hidden: true }, 'The profile has changed. ', el('button', { type: 'button', click: () => location.reload() }, 'Read it again'));
  document.getElementById('main').prepend(note);
  const look = async () => {
    const answer = await fetch(state.data.watch.address, { cache: 'no-store' }).catch(() => null);
    if (answer?.ok) note.hidden = (await answer.text()) === state.data.watch.stamp;
    setTimeout(look, 3000);
  };
  look();
}

async function main() {
  state.data = JSON.parse(document.getElementById('data').textContent);
  state.engine = await Engine.start(decode(document.getElementById('engine').textContent));
  state.profiles = state.data.profiles.map((profile) => {
    const known = state.engine.load(decode(profile.bytes));
    const number = known.profile;
    return { ...profile, bytes: null, ...known, number, curve: askCurve({ number }, []).curve };
  });
  label(state.profiles);
  const [own] = state.profiles.flatMap((profile) => profile.hierarchies ?? []);
  state.levels = own.levels.map(fromData);
  state.tags = state.data.tags;
  state.origin = own.label;

  const several = state.profiles.length > 1;
  document.getElementById('head').replaceChildren(
    el('p', { class: 'kicker' }, several ? 'Data movement of several runs' : 'Data movement'),
    el('h1', null, state.profiles.flatMap((profile, at) => [at > 0 ? ' and ' : '', name(profile.short)])),
    ...state.profiles.map(headline),
    el('p', { class: 'origin' }, name(own.label), state.tags.length > 0 ? [', references of ', name(state.tags.map(tagLabel).join(', '))] : null));
  const cached = state.profiles.some((profile) => profile.line_sizes.length > 0);
  const answers = cached ? [comparison(), whatIf(), curves(), workingSets(), heat(), places(), byTag()] : [];
  const sections = [overview(), ...answers].filter((section) => section !== null);
  document.getElementById('nav').replaceChildren(el('ul', null, sections.map((section) =>
    el('li', null, el('a', { href: `#${section.id}` }, section.querySelector('h2').textContent)))));
  document.getElementById('main').replaceChildren(...sections);
  document.getElementById('foot').replaceChildren(...about());
  if (cached) showLevels();
  state.quick.forEach((listen) => listen());
  state.slow.forEach((listen) => listen());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  new ResizeObserver(redrawAll).observe(document.getElementById('main'));
  watch();
  document.documentElement.dataset.ready = 'true';
}

main().catch((error) => {
  document.getElementById('main').replaceChildren(el('p', { class: 'refusal', role: 'alert' }, `This report could not be shown: ${error.message}`));
  document.documentElement.dataset.ready = 'failed';
});
