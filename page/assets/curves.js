// Miss-ratio curves over capacity, the heat map of size and ways, and the working sets.

/** The size from which on a larger fully associative cache gains nothing that could be seen. */
function flatFrom({ curve }) {
  const end = curve.at(-1)?.miss_ratio ?? 0;
  return curve.find((_, at) => curve.slice(at).every((later) => later.miss_ratio - end <= 1e-4))?.size_bytes ?? 0;
}

/** Sizes of the sweep: every power of two from the smallest of interest to where nothing changes any more. */
function sweepSizes(dense) {
  const end = Math.max(...state.profiles.map(flatFrom), ...state.levels.map((level) => level.size), 2 ** 16);
  const last = Math.min(2 ** 34, 2 ** Math.ceil(Math.log2(end * 1.5)));
  const sizes = [];
  for (let at = 1024; at <= last; at *= 2) sizes.push(...(dense && at < last ? [1, 1.25, 1.5, 1.75].map((part) => at * part) : [at]));
  return sizes;
}

/** The points of a profile's caches with these ways, in per cent; none for what the profile cannot tell. */
function sweepPoints(profile, ways, dense) {
  const answer = state.engine.ask({ ask: 'sweep', profile: profile.number, sizes: sweepSizes(dense), ways, line: null, scope: 'private', hashed: false, tags: state.tags });
  return answer.points.map((point) => ({
    size: point.size_bytes, ways: point.full ? 'full' : String(point.ways), percent: (point.miss_ratio ?? 0) * 100, point, profile,
  }));
}

const waysLabel = (ways) => (ways === 'full' ? 'fully associative' : `${ways}-way`);

/** How lines of one colour differ: the second of them, the third. */
const DASHES = [null, '7 3', '2 3', '9 3 2 3'];

/** Upright names beside the lines of a hierarchy. Where two would touch, they become one. */
function levelNames(levels, scale, what) {
  const sorted = levels.map((level) => ({ size: level.size, text: `${level.name} ${bytes(level.size)}` })).sort((a, b) => a.size - b.size);
  const merged = [];
  for (const label of sorted) {
    const last = merged.at(-1);
    if (last && Math.abs(scale(label.size) - scale(last.size)) < 14) last.text += `, ${label.text}`;
    else merged.push({ ...label });
  }
  return merged.map((label) => ({ ...label, text: what ? `${what}: ${label.text}` : label.text }));
}

/** The curves. */
function curvesFigure(chosen) {
  let points = [];
  const labelOf = (d) => (state.profiles.length > 1 ? `${d.profile.short}` : waysLabel(d.ways));
  return figure('Miss ratio against cache size', 'miss-ratio-curves', {
    ask() {
      points = state.profiles.flatMap((profile) => chosen.ways.flatMap((ways) => sweepPoints(profile, [ways], ways === 'full')));
    },
    draw(width, colours) {
      const several = state.profiles.length > 1;
      const keys = several ? state.profiles.map((profile) => profile.short) : chosen.ways.map(waysLabel);
      const all = ['1', '2', '4', '8', '16', 'full'];
      const colour = keys.map((_, at) => (several ? colours.series[at % colours.series.length] : chosen.ways[at] === 'full' ? colours.accent : colours.ways[all.indexOf(chosen.ways[at])]));
      const entries = keys.map((label, at) => ({ label, colour: colour[at], dash: several ? DASHES[Math.floor(at / colours.series.length) % DASHES.length] : null }));
      entries.push({ label: state.origin || 'your hierarchy', colour: colours.text });
      if (state.beside) entries.push({ label: state.beside.label.split(':')[0], colour: colours.quiet, dash: '4 3' });
      const marginLeft = 56;
      const top = layLegend(entries, width, marginLeft) + 6;
      const domain = [1024, sweepSizes(false).at(-1)];
      const room = width - marginLeft - 20;
      const scale = (value) => (Math.log2(value / domain[0]) / Math.log2(domain[1] / domain[0])) * room;
      const low = Math.min(...points.map((d) => d.percent).filter((value) => value > 0), 100);
      const inside = (level) => level.size >= domain[0] && level.size <= domain[1];
      const own = state.levels.filter(inside);
      const beside = (state.beside?.levels ?? []).filter(inside);
      const text = { rotate: -90, dx: -13, fontSize: 11.5, stroke: colours.background, strokeWidth: 4 };
      const svg = Plot.plot({
        ...base(colours, width, top + 380), marginTop: top, marginLeft, marginRight: 20, marginBottom: 44,
        x: capacityAxis(domain, room),
        y: { label: 'misses (% of references)', labelAnchor: 'center', labelArrow: 'none', grid: true, nice: true, ticks: 7, tickFormat: (value) => String(Number(value.toPrecision(3))),
          ...(chosen.log ? { type: 'log', domain: [10 ** Math.floor(Math.log10(low)), 100] } : { zero: true }) },
        marks: [
          Plot.ruleX(beside, { x: 'size', stroke: colours.quiet, strokeDasharray: '4 3' }),
          Plot.ruleX(own, { x: 'size', stroke: colours.text, strokeOpacity: 0.65 }),
          ...keys.map((key, at) => Plot.line(points.filter((d) => labelOf(d) === key && (!chosen.log || d.percent > 0)), {
            x: 'size', y: 'percent', stroke: colour[at], strokeWidth: 2, strokeDasharray: entries[at].dash,
          })),
          Plot.text(levelNames(own, scale), { x: 'size', text: 'text', frameAnchor: 'top', textAnchor: 'end', fill: colours.text, dy: 4, ...text }),
          Plot.text(levelNames(beside, scale), { x: 'size', text: 'text', frameAnchor: 'bottom', textAnchor: 'start', fill: colours.quiet, dy: -6, ...text }),
          Plot.tip(points, Plot.pointer({
            x: 'size', y: 'percent', ...tipStyle(colours),
            title: (d) => `${labelOf(d)}${several ? `, ${waysLabel(d.ways)}` : ''}\n${bytes(d.size)}: ${percent(d.percent / 100)}\n${number(d.point.misses)} misses${d.point.exact ? '' : ` (${d.point.model})`}`,
          })),
        ],
      });
      drawLegend(svg, entries, colours);
      return svg;
    },
    numbers() {
      const sizes = [...new Set(points.map((d) => d.size))].sort((a, b) => a - b);
      const columns = state.profiles.flatMap((profile) => chosen.ways.map((ways) => [profile, ways]));
      return table('Miss ratios', ['size', ...columns.map(([profile, ways]) => (state.profiles.length > 1 ? `${profile.short}, ${waysLabel(ways)}` : waysLabel(ways)))],
        sizes.map((at) => [bytes(at), ...columns.map(([profile, ways]) => {
          const found = points.find((d) => d.size === at && d.ways === ways && d.profile === profile);
          return found ? percent(found.percent / 100) : '–';
        })]));
    },
    describe() {
      const full = points.filter((d) => d.ways === chosen.ways.at(-1));
      const ends = state.profiles.map((profile) => full.filter((d) => d.profile === profile)).filter((own) => own.length > 0);
      const sentences = ends.map((own) => `${state.profiles.length > 1 ? `${own[0].profile.short}: ` : ''}from ${percent(own[0].percent / 100)} at ${bytes(own[0].size)} to ${percent(own.at(-1).percent / 100)} at ${bytes(own.at(-1).size)}`);
      return `${waysLabel(chosen.ways.at(-1))}: ${sentences.join('; ')}. Vertical lines mark the caches of the hierarchy.`.replace(/^./, (c) => c.toUpperCase());
    },
  });
}

/** The heat map of one profile. */
function heatFigure(profile) {
  const ways = ['1', '2', '4', '8', '16', '32', '64', 'full'];
  let points = [];
  const title = 'Miss ratio by size and ways' + (state.profiles.length > 1 ? `: ${profile.short}` : '');
  return figure(title, `heat-map-${profile.number}`, {
    ask() {
      points = sweepPoints(profile, ways.filter((way) => way === 'full' || Number(way) <= profile.max_ways), false);
    },
    draw(width, colours) {
      const sizes = [...new Set(points.map((d) => d.size))].sort((a, b) => a - b);
      const [low, top] = [Math.min(...points.map((d) => d.percent)), Math.max(...points.map((d) => d.percent))];
      const marginLeft = 56;
      const cell = (width - marginLeft - 12) / Math.max(1, sizes.length);
      const every = Math.ceil(58 / cell);
      const colour = d3.interpolateRgbBasis(colours.heat);
      // Ratios differ by orders of magnitude: the root keeps small ones apart.
      const shade = (d) => colour(top > low ? Math.sqrt((d.percent - low) / (top - low)) : 0);
      const ink = (d) => (d3.lab(shade(d)).l > 58 ? '#14181d' : '#ffffff');
      const svg = Plot.plot({
        ...base(colours, width, 26 + 30 * ways.length + 48), marginTop: 26, marginLeft, marginRight: 12, marginBottom: 46,
        x: { domain: sizes, label: 'cache size (bytes)', labelAnchor: 'center', labelArrow: 'none', tickFormat: (d, at) => (at % every === 0 ? bytes(d) : ''), tickSize: 0, padding: 0.04 },
        y: { domain: ways.toReversed(), label: 'ways', labelAnchor: 'center', labelArrow: 'none', tickSize: 0, padding: 0.06 },
        marks: [
          Plot.cell(points, { x: 'size', y: 'ways', fill: shade }),
          cell >= 40 ? Plot.text(points, { x: 'size', y: 'ways', text: (d) => (d.percent >= 9.95 ? d.percent.toFixed(0) : d.percent >= 0.0995 ? d.percent.toFixed(1) : d.percent > 0 ? '<0.1' : '0'), fill: ink, fontSize: 11 }) : null,
          Plot.tip(points, Plot.pointer({ x: 'size', y: 'ways', ...tipStyle(colours), title: (d) => `${bytes(d.size)}, ${waysLabel(d.ways)}\n${percent(d.percent / 100)} of references miss\n${number(d.point.misses)} misses${d.point.exact ? '' : ` (${d.point.model})`}` })),
        ],
      });
      if (top > low) ramp(svg, colour, [low, top], marginLeft, colours);
      return svg;
    },
    numbers() {
      const sizes = [...new Set(points.map((d) => d.size))].sort((a, b) => a - b);
      return table(title, ['size', ...ways.map(waysLabel)], sizes.map((at) => [bytes(at), ...ways.map((way) => {
        const found = points.find((d) => d.size === at && d.ways === way);
        return found ? percent(found.percent / 100) : '–';
      })]));
    },
    describe: () => 'Misses in per cent of references. A cell that is empty stands for a cache that cannot be, or that the profile was not recorded for.',
  });
}

/** The key of a heat map's colours, above it. */
function ramp(svg, colour, [low, top], left, colours) {
  const group = d3.select(svg).append('g').attr('font-size', 11.5).attr('text-anchor', 'start').attr('fill', colours.quiet).attr('aria-hidden', 'true');
  const steps = 40;
  const first = percent(low / 100);
  const from = left + 10 + first.length * 6.4;
  group.append('text').attr('x', left).attr('y', 14).text(first);
  for (let at = 0; at < steps; at += 1) {
    group.append('rect').attr('x', from + at * 4).attr('y', 5).attr('width', 4.5).attr('height', 10).attr('fill', colour(Math.sqrt(at / (steps - 1))));
  }
  group.append('text').attr('x', from + steps * 4 + 8).attr('y', 14).text(`${percent(top / 100)} miss`);
}

/** The section of curves. */
function curves() {
  const single = state.profiles.length === 1;
  const chosen = { ways: single ? ['1', '2', '4', '8', '16', 'full'] : ['full'], log: false };
  const plot = curvesFigure(chosen);
  state.quick.push(plot.refresh);
  const waysControl = single
    ? el('fieldset', { class: 'choice' }, el('legend', null, 'Ways'), ['1', '2', '4', '8', '16', 'full'].map((ways) => {
      const box = el('input', { type: 'checkbox', checked: true, value: ways, change: () => {
        const boxes = [...box.closest('fieldset').querySelectorAll('input')];
        if (!boxes.some((other) => other.checked)) box.checked = true;
        chosen.ways = boxes.filter((other) => other.checked).map((other) => other.value);
        plot.refresh();
      } });
      return el('label', null, box, el('span', null, ways));
    }))
    : choice('Ways', ['1', '2', '4', '8', '16', 'full'].map((ways) => [ways, ways]), 'full', (ways) => {
      chosen.ways = [ways];
      plot.refresh();
    });
  const choices = starts().map((machine, at) => [String(at), machine.label]);
  const beside = select('Draw in', [['', 'no other machine'], ...choices], '', (at) => {
    const machine = at === '' ? null : starts()[Number(at)];
    state.beside = machine && { label: machine.label, levels: machine.levels.map(fromData) };
    plot.redraw();
  });
  return el('section', { id: 'curves', 'aria-labelledby': 'curves-h' },
    el('h2', { id: 'curves-h' }, 'Miss-ratio curves'),
    el('p', null, 'One cache by itself, fed with all references: what part of them misses, at every size.'),
    el('div', { class: 'toolbar' }, waysControl,
      choice('Scale', [['linear', 'linear'], ['log', 'logarithmic']], 'linear', (scale) => {
        chosen.log = scale === 'log';
        plot.redraw();
      }), beside),
    plot);
}

/** The section of heat maps. */
function heat() {
  const plots = state.profiles.map(heatFigure);
  state.slow.push(() => plots.forEach((plot) => plot.refresh()));
  return el('section', { id: 'heat', 'aria-labelledby': 'heat-h' }, el('h2', { id: 'heat-h' }, 'Size and associativity'), plots);
}

/** The section of working sets. */
function workingSets() {
  const list = el('div');
  const headers = [...(state.profiles.length > 1 ? ['profile'] : []), 'once a cache holds', 'misses fall from', 'to'];
  state.slow.push(() => {
    const rows = state.profiles.flatMap((profile) => askCurve(profile, state.tags).knees.map((knee) => [
      ...(state.profiles.length > 1 ? [profile.short] : []), bytes(knee.size_bytes), percent(knee.above), percent(knee.below),
    ]));
    list.replaceChildren(...(rows.length > 0
      ? [el('p', null, 'Sizes at which the miss ratio of a fully associative cache falls steeply: a set of data that is used again and again fits from there on.'), table('Working sets', headers, rows, { class: 'figures' })]
      : [el('p', null, 'The miss ratio falls steeply nowhere: no set of data stands out that a cache could hold.')]));
  });
  return el('section', { id: 'sets', 'aria-labelledby': 'sets-h' }, el('h2', { id: 'sets-h' }, 'Working sets'), list);
}
