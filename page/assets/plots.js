// Figures: Observable Plot in a frame with a title, downloads and the numbers behind it.

/** Colours of the theme in use, as values, so that a downloaded picture carries them. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (key) => style.getPropertyValue(`--${key}`).trim();
  const list = (key) => get(key).split(',').map((colour) => colour.trim());
  return {
    background: get('card'), text: get('text'), quiet: get('quiet'), rule: get('rule'), accent: get('accent'),
    ways: list('ways'), series: list('series'), kinds: list('kinds'), heat: list('heat'),
  };
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

/** What all plots share. */
function base(colours, width, height) {
  return {
    width, height,
    style: { background: colours.background, color: colours.text, fontFamily: FONT, fontSize: '12px', overflow: 'visible' },
  };
}

/** Colours of a tip. */
const tipStyle = (colours) => ({ fill: colours.background, stroke: colours.rule, fontSize: 12, lineHeight: 1.3 });

/** A logarithmic axis of capacity with ticks at powers of two, as many as there is room for. */
function capacityAxis(domain, room) {
  const [first, last] = domain.map(Math.log2);
  const step = Math.max(1, Math.ceil((last - first) / Math.max(2, Math.floor(room / 62))));
  const ticks = [];
  for (let power = Math.ceil(first); power <= last; power += step) ticks.push(2 ** power);
  return { type: 'log', base: 2, domain, ticks, tickFormat: bytes, label: 'cache size (bytes)', labelArrow: 'none', labelAnchor: 'center' };
}

/** The text; where it is wider than there is room for (pixels), without its middle. */
function fitted(text, room) {
  const pen = el('canvas').getContext('2d');
  pen.font = `12px ${FONT}`;
  const letters = [...text];
  let shown = text;
  for (let kept = letters.length - 1; kept > 1 && pen.measureText(shown).width > room; kept -= 1) {
    shown = `${letters.slice(0, Math.ceil(kept / 2)).join('')}…${letters.slice(-Math.floor(kept / 2)).join('')}`;
  }
  return shown;
}

/** Lays out legend entries in rows; each gets `x` and `y`. The result is the height used. */
function layLegend(entries, width, left) {
  let [x, y] = [left, 14];
  for (const entry of entries) {
    entry.label = fitted(entry.label, width - left - 26);
    const wide = 26 + entry.label.length * 6.6 + 14;
    if (x > left && x + wide > width) [x, y] = [left, y + 18];
    Object.assign(entry, { x, y });
    x += wide;
  }
  return entries.length > 0 ? y + 14 : 8;
}

/** Draws a laid-out legend into a plot. */
function drawLegend(svg, entries, colours) {
  const group = d3.select(svg).append('g').attr('font-size', 12).attr('text-anchor', 'start').attr('aria-hidden', 'true');
  for (const { x, y, colour, dash, box, label } of entries) {
    if (box) group.append('rect').attr('x', x).attr('y', y - 9).attr('width', 14).attr('height', 11).attr('fill', colour);
    else {
      group.append('line').attr('x1', x).attr('x2', x + 18).attr('y1', y - 4).attr('y2', y - 4)
        .attr('stroke', colour).attr('stroke-width', 2.2).attr('stroke-dasharray', dash ?? null);
    }
    group.append('text').attr('x', x + (box ? 20 : 24)).attr('y', y).attr('fill', colours.text).text(label);
  }
}

/** Figures to draw again when the window or the theme changes. */
const figures = new Set();

/**
 * A figure. `ask()` gets what it shows, `draw(width, colours)` gives the plot, `numbers()` a table of what it shows,
 * `describe()` a sentence about it. The result is the node with `refresh()`, which asks and draws, and `redraw()`.
 */
function figure(title, file, { ask, draw, numbers, describe }) {
  let refusal = null;
  const frame = el('div', { class: 'plot' });
  const text = el('p', { class: 'describe' });
  const details = el('details', { toggle: () => fill() }, el('summary', null, 'Numbers'));
  const fill = () => {
    details.querySelector('.scroll')?.remove();
    if (details.open) details.append(numbers());
  };
  const save = (kind) =>
    el('button', { type: 'button', click: () => download(frame.querySelector('svg'), file, kind), 'aria-label': `${title} as ${kind.toUpperCase()}` }, kind.toUpperCase());
  const node = el('figure', null,
    el('figcaption', null, el('h3', null, title), el('span', { class: 'saves' }, save('svg'), save('png'))),
    frame, text, details);
  node.redraw = () => {
    if (!frame.isConnected || frame.clientWidth === 0) return;
    node.querySelectorAll('details, .saves').forEach((part) => { part.hidden = refusal !== null; });
    if (refusal !== null) {
      frame.replaceChildren(el('p', { class: 'refusal' }, refusal));
      text.textContent = '';
      return;
    }
    const plot = draw(frame.clientWidth, theme());
    const sentence = describe();
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-label', `${title}. ${sentence}`);
    frame.replaceChildren(plot);
    text.textContent = sentence;
    fill();
  };
  node.refresh = () => {
    refusal = null;
    try {
      ask();
    } catch (error) {
      refusal = error.message;
    }
    node.redraw();
  };
  figures.add(node);
  return node;
}

/** Draws all figures again, once the window has its new size or the theme its new colours. */
const redrawAll = settled(() => figures.forEach((node) => node.redraw()), 80);

/** A picture as the text of an SVG file. */
function svgText(svg) {
  const copy = svg.cloneNode(true);
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.querySelectorAll('[aria-label="tip"]').forEach((tip) => tip.remove());
  return new XMLSerializer().serializeToString(copy);
}

/** The picture as a PNG, twice as fine as on the screen. */
async function pngBlob(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const { width, height } = svg.viewBox.baseVal;
  const canvas = el('canvas', { width: width * 2, height: height * 2 });
  canvas.getContext('2d').drawImage(image, 0, 0, width * 2, height * 2);
  return new Promise((done) => { canvas.toBlob(done, 'image/png'); });
}

/** Hands a picture to the browser as a file. */
async function download(svg, file, kind) {
  const blob = kind === 'svg' ? new Blob([svgText(svg)], { type: 'image/svg+xml' }) : await pngBlob(svg);
  const address = URL.createObjectURL(blob);
  el('a', { href: address, download: `${file}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
