// Two profiles side by side: what `bf compare` says to them.

/** The section of the comparison; null if there is none in the page. */
function comparison() {
  const { comparison: found } = state.data;
  if (!found) return null;
  const spoken = (aspect) => aspect.name.replaceAll('_', ' ') + (aspect.essential ? ' *' : '');
  const rows = found.aspects.map((aspect) => [
    spoken(aspect),
    { content: aspect.score.toFixed(2), class: 'share', style: `--share:${(aspect.score * 100).toFixed(1)}%` },
    { content: name(aspect.why), class: 'words' },
  ]);
  return el('section', { id: 'compare', 'aria-labelledby': 'compare-h' }, el('h2', { id: 'compare-h' }, 'How alike'),
    el('p', null, el('strong', null, `${found.verdict}: score ${found.score.toFixed(2)}`),
      ' of 1, which is no difference. A is ', name(state.profiles[0].label), ', B is ', name(state.profiles[1].label), '.'),
    table('Aspects', ['aspect', 'score', { content: 'why', class: 'words' }], rows, { class: 'figures' }),
    el('p', { class: 'describe' }, '* essential: the verdict can be little better than the least of these.'));
}
