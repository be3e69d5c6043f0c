// What the reader chose: the hierarchy, the tag, the profile looked at; and who must hear of a change.

/** Sizes that the sliders step through, bytes. */
const SIZES = Array.from({ length: 21 }, (_, i) => [2 ** (10 + i), 3 * 2 ** (9 + i)]).flat().slice(0, -1);
/** Associativities likewise. */
const WAYS = ['1', '2', '3', '4', '6', '8', '10', '11', '12', '15', '16', '20', '24', '32', '48', '64', 'full'];

/** The page's state; filled by `main.js`. */
const state = {
  /** The engine. */
  engine: null,
  /** What the command put into the page. */
  data: null,
  /** Profiles: what the page knows of each, with the engine's `number`, a `label` and a `short` one. */
  profiles: [],
  /** Levels asked about, nearest first: name, size (bytes), ways (text), line (bytes or null), scope, hashed, exclusive, and
   * once a slider was moved `aim`, the size aimed at; `typed`, what was typed as a size and is none. */
  levels: [],
  /** Where they came from, in words. */
  origin: '',
  /** Levels drawn beside them: `null`, or name and levels of a preset. */
  beside: null,
  /** Tags asked about; none for all references. */
  tags: [],
  /** Number of the profile that is broken down. */
  current: 0,
  quick: [],
  slow: [],
};

/** Tells everybody who answers at once, and a little later those who take longer. */
const later = settled(() => state.slow.forEach((listen) => listen()), 180);
function changed() {
  state.quick.forEach((listen) => listen());
  later();
}

/** A level as `--cache` takes it. */
function spec(level) {
  const parts = [`${level.name}=${level.typed ?? size(level.size)}`, level.ways];
  if (level.line) parts.push(level.line);
  parts.push(level.scope);
  if (level.hashed) parts.push('hashed');
  if (level.exclusive) parts.push('exclusive');
  return parts.join(':');
}

/** A level as the command puts it into the page. */
const fromData = (level) => ({
  name: level.name, size: level.size_bytes, ways: String(level.ways), line: level.line_bytes,
  scope: level.scope, hashed: level.hashed, exclusive: level.exclusive,
});

/** A tag as one says it: a slice of time, which ends in its number, is a phase. */
const tagLabel = (tag) => tag.replace(/(.*)@(\d+)$/s, (_, of, slice) => `${of || 'no tag'}, phase ${slice}`);

/** What a profile can be asked about: the slices of time, and what ran under each tag; with the tags to ask for. */
const parts = (profile) => [
  ...Object.entries(profile.phases).map(([slice, tags]) => ({ label: `phase ${slice}`, tags })),
  ...profile.tags.map((tag) => ({ label: tagLabel(tag), tags: [tag] })),
];

/** The answer of the hierarchy for a profile. */
const askQuery = (profile, more) =>
  state.engine.ask({ ask: 'query', profile: profile.number, caches: state.levels.map(spec), tags: state.tags, ...more });

/** The miss ratios of fully associative caches, and where they fall. */
function askCurve(profile, tags) {
  try {
    return state.engine.ask({ ask: 'curve', profile: profile.number, tags });
  } catch {
    // A profile without stacks or without the tag has no curve; the query says why.
    return { curve: [], knees: [] };
  }
}

/** The nearest size to `bytes` that the level can have with its ways and line, by itself a profile's only one or 64. */
function possible(level, wanted) {
  const line = level.line ?? Math.max(...state.profiles.map(({ line_sizes: lines }) => (lines.length === 1 ? lines[0] : 64)));
  const unit = level.ways === 'full' ? line : line * Number(level.ways);
  return Math.max(1, Math.round(wanted / unit)) * unit;
}

/** Index of the entry nearest to `value`, by ratio. */
function nearest(list, value) {
  const off = (entry) => Math.abs(Math.log(entry / value));
  return list.reduce((best, entry, at) => (off(entry) < off(list[best]) ? at : best), 0);
}
