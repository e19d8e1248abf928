const $ = id => document.getElementById(id), c = $('c'), g = c.getContext('2d'), tip = $('tip');
const LEFT = 150, ROW = 26, GAP = 3, RANKGAP = 14, FOOT = 30, TITLE = 24, BRACKET = 20, PARTS = 28, MEM = 72, CUT = .035;
const P = D.panels, ONE = P.length === 1, rows = P.flatMap(p => p.rows);
let from = 0, to = 0, hit = null, drag = null, hidden = [], cut = 0, drawn = 0;
const secs = s => { for (const [f, u] of [[1, 's'], [1e3, 'ms'], [1e6, 'us']])
    if (Math.abs(s * f) >= 1 || u === 'us') return parseFloat((s * f).toPrecision(4)) + ' ' + u; };
const bytes = b => { for (const [f, u] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB'], [1, 'B']])
    if (b >= f || f === 1) return parseFloat((b / f).toPrecision(3)) + ' ' + u; };
const esc = t => t.replace(/[&<>]/g, m => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[m]));
const css = n => getComputedStyle(document.documentElement).getPropertyValue(n);
const key = (colour, words, look = '') => `<span class="key"><i class="${look}" style="background:${colour}"></i>${words}</span>`;

const heading = p => p.title + ': ' + secs(p.whole);
$('title').textContent = ONE ? heading(P[0]) : P.length + ' schedules on one axis of time';
$('bar').innerHTML = D.kinds.map(k => key(k[1], k[0])).join('') +
  (D.waits ? key(D.kinds[4][1], 'pale: waiting for its group', 'pale') : '') +
  (rows.some(r => r.path.length) ? key('var(--ink)', 'underlined: the critical path', 'line') : '') + '<button id="all">whole step</button>' +
  (ONE && P[0].folds.length ? '<button id="fold"></button>' : '');
if (P.some(p => p.memory)) $('memory').innerHTML = '<b>memory</b>' + D.classes.map(k => key(k[1], k[0])).join('');
$('words').innerHTML = D.words.map(w => `<p>${esc(w)}</p>`).join('');

// From the top: its title where there are several, brackets over equal layers, parts, memory, rows.
let y = 4;
const most = Math.max(...P.map(p => p.memory ? p.memory.most : 0));
for (const p of P) {
  p.titleY = y; y += ONE ? 0 : TITLE;
  p.bracketY = y; y += BRACKET * Math.max(0, ...p.folds.map(f => f.depth + 1));
  p.partsY = y; y += PARTS;
  p.memoryY = y; y += p.memory ? MEM + RANKGAP : 0;
  p.top = y;
  p.rows.forEach((r, i) => { if (i) y += ROW + (r.rank === p.rows[i - 1].rank ? GAP : RANKGAP); r.y = y; r.panel = p; });
  y += ROW + RANKGAP; p.bottom = y - RANKGAP;
  p.folds.forEach(f => f.open = !ONE);
}
const height = y + FOOT;

// What folds leave out is a gap. A place is a length along what is drawn, in seconds; what starts in a gap starts at its
// end, what ends in one ends at its start.
function cutAxis() {
  hidden = P.flatMap(p => p.folds).filter(f => !f.open).map(f => [f.shown, f.end]).sort((a, b) => a[0] - b[0]);
  const seen = hidden.reduce((all, h) => all - (h[1] - h[0]), D.whole);
  cut = CUT * seen; drawn = seen + cut * hidden.length; from = 0; to = drawn;
  if ($('fold')) $('fold').textContent = hidden.length ? 'open equal layers' : 'fold equal layers';
}
function place(s, inGap) {
  let at = s;
  for (const [a, b] of hidden) {
    if (s < a || (s === a && !inGap)) break;
    if (s < b) return at + a - s + inGap * cut;
    at += cut - (b - a);
  }
  return at;
}
const hides = (s, e) => hidden.some(([a, b]) => s >= a && e <= b);
const width = () => c.clientWidth - LEFT - 8, scaled = at => LEFT + (at - from) / (to - from) * width();
const X = s => scaled(place(s, 1)), E = s => scaled(place(s, 0));  // of a begin, of an end
const clipped = (s, e) => [Math.max(X(s), LEFT), Math.min(E(e), LEFT + width())];
function T(x) {
  let at = from + (x - LEFT) / width() * (to - from);
  for (const [a, b] of hidden) {
    if (at <= a) break;
    at = at < a + cut ? a : at - cut + (b - a);
  }
  return at;
}

function words(text, x, y, look) {
  g.fillStyle = css('--soft'); g.font = (look.bold || '') + ' 11px system-ui, sans-serif'; g.textAlign = look.align || 'left';
  g.fillText(text, x, y);
}
function label(texts, x, y, room, ink) {
  g.font = '11px system-ui, sans-serif'; g.textAlign = 'left';
  const text = texts.find(t => g.measureText(t).width <= room);
  g.fillStyle = ink; if (text) g.fillText(text, x, y);
}
function cutShort(text, room) {
  g.font = '11px system-ui, sans-serif';
  const fits = Math.floor(room / (g.measureText(text).width / text.length));
  return text.length <= fits ? text : fits > 3 ? text.slice(0, fits - 1) + '\u2026' : '';
}
// A box is [step, start, end], and when the last of its group came. Boxes narrower than two pixels share the pixel they
// fall on: the kind with most time there colours it.
function rowBoxes(r) {
  const shared = new Map(), notes = r.panel.notes;
  for (const b of r.boxes) {
    if (hides(b[1], b[2])) continue;
    const [a, e] = clipped(b[1], b[2]), n = notes[b[0]], [, colour, ink] = D.kinds[n.kind];
    if (e < LEFT || a > LEFT + width()) continue;
    if (e - a < 2) {
      const at = Math.floor((a + e) / 2), kinds = shared.get(at) || {};
      shared.set(at, kinds); kinds[n.kind] = (kinds[n.kind] || 0) + Math.max(e - a, 1e-9);
      continue;
    }
    const left = Math.round(a), w = Math.round(e - (e - a > 3 ? 1 : 0)) - left;
    const met = b[3] ? Math.min(Math.max(Math.round(E(b[3])) - left, 0), w) : 0;
    g.fillStyle = colour; g.fillRect(left + met, r.y, w - met, ROW);
    g.globalAlpha = .3; g.fillRect(left, r.y, met, ROW); g.globalAlpha = 1;
    const title = w > 130 ? n.title + '  %' + n.name : n.title;
    if (w - met > 34) label([cutShort(title, w - met - 8)], left + met + 4, r.y + 17, w, ink);
    else if (met > 34) label([cutShort(title, met - 8)], left + 4, r.y + 17, w, css('--ink'));
  }
  for (const [at, kinds] of shared) {
    const most = Object.keys(kinds).reduce((a, b) => kinds[b] > kinds[a] ? b : a);
    g.fillStyle = D.kinds[most][1]; g.fillRect(at, r.y, 1, ROW);
  }
}
// Under what lies on the critical path.
function underline(r) {
  g.fillStyle = css('--ink');
  for (const [s, e] of r.path) {
    if (hides(s, e)) continue;
    const [a, b] = clipped(s, e);
    if (b >= a) g.fillRect(a, r.y + ROW, Math.max(b - a, 1), 2);
  }
}
function outline(r, b, dash) {
  if (hides(b[1], b[2])) return;
  const [a, e] = clipped(b[1], b[2]);
  if (e < a) return;
  g.setLineDash(dash); g.strokeStyle = css('--ink'); g.lineWidth = 2;
  g.strokeRect(a, r.y - 1, Math.max(e - a, 2), ROW + 2); g.setLineDash([]);
}
function related() {
  if (!hit) return;
  const [row, box] = hit, notes = row.panel.notes;
  for (const r of row.panel.rows) if (r.rank === row.rank) for (const b of r.boxes) {
    if (notes[box[0]].needs.includes(b[0]) && b[2] <= box[2]) outline(r, b, []);
    if (notes[b[0]].needs.includes(box[0]) && b[1] >= box[1]) outline(r, b, [4, 3]);
  }
  outline(row, box, []);
}
function axis() {
  const rough = (to - from) / 10, ten = 10 ** Math.floor(Math.log10(rough)), last = T(LEFT + width());
  const step = [1, 2, 5, 10].map(k => k * ten).find(s => s >= rough);
  let free = 0;
  for (let i = Math.ceil(T(LEFT) / step); i * step <= last; ++i) {
    if (hides(i * step, i * step)) continue;
    const x = E(i * step);
    g.fillStyle = css('--line');
    for (const p of P) g.fillRect(x, p.memoryY - 6, 1, p.bottom - p.memoryY + 12);
    if (x < free) continue;
    words(secs(i * step), Math.min(x, LEFT + width() - 22), height - 8, {align: 'center'});
    free = x + 60;
  }
}
// Brackets over equal layers, a click away from being opened or folded, and how many more there are in the gap.
const foldBox = f => [Math.max(X(f.start), LEFT), Math.min(f.open ? E(f.end) : X(f.end), LEFT + width())];
function brackets(p) {
  p.folds.forEach((f, i) => {
    const [a, e] = foldBox(f), next = p.folds.find((o, j) => j > i && o.depth === f.depth), up = p.bracketY + BRACKET * f.depth;
    if (e <= a) return;
    g.strokeStyle = css('--soft'); g.lineWidth = 1;
    g.strokeRect(a + .5, up + 15.5, e - a - 1, 0);
    for (const x of [a + .5, e - .5]) g.strokeRect(x, up + 15.5, 0, 4);
    const room = (next ? Math.max(X(next.start), LEFT) : LEFT + width()) - a - 6;
    label([f.open ? f.told : f.drawn, f.what, 'x' + f.count], a + 3, up + 11, room, css('--soft'));
    if (!f.open) words('+' + (f.count - 1), (Math.max(E(f.shown), LEFT) + e) / 2, p.partsY + 15, {align: 'center'});
  });
}
// Parts that are too narrow for their names, one after the other, have one in common.
const rangeName = (a, b) => { const words = a.includes(' ') ? a.slice(a.indexOf(' ')) : '';
  return a === b ? a : (b.endsWith(words) ? a.slice(0, a.length - words.length) : a) + '-' + b; };
function parts(p) {
  let narrow = null;
  const named = (a, b, names) => {
    const text = names.find(t => g.measureText(t).width + 6 < b - a);
    if (text) words(text, (a + b) / 2, p.partsY + 15, {align: 'center'});
    return text;
  };
  const flush = () => { if (narrow) named(narrow.a, narrow.b, [rangeName(narrow.first, narrow.last)]); narrow = null; };
  for (const [name, s, e] of p.parts) {
    if (hides(s, e)) continue;
    const [a, b] = clipped(s, e);
    if (b - a < 1) continue;
    g.fillStyle = css('--lane'); g.fillRect(a, p.partsY + 2, b - a - 1, 18);
    const fits = named(a, b, [name, name.replace(/( \w)\w*$/, '$1')]);
    if (fits || (narrow && a - narrow.b > 16)) flush();
    if (!fits) narrow = {first: narrow ? narrow.first : name, last: name, a: narrow ? narrow.a : a, b};
  }
  flush();
}
function partAt(e) {
  const [x, up] = where(e), at = T(x), p = P.find(p => up >= p.partsY && up <= p.partsY + PARTS - 6);
  return p && x >= LEFT && p.parts.find(q => q[1] <= at && at <= q[2] && !hides(q[1], q[2]));
}
// A point is [start, end, bytes by class, bytes]. Of those that share a pixel the one with most is drawn.
function memory(p) {
  const m = p.memory;
  if (!m) return;
  g.fillStyle = css('--lane'); g.fillRect(LEFT, p.memoryY, width(), MEM);
  words('memory of rank ' + p.rows[0].rank, LEFT - 8, p.memoryY + 17, {align: 'right'});
  words('at most ' + bytes(m.most), LEFT - 8, p.memoryY + 33, {align: 'right'});
  const shown = new Map();
  for (const q of m.points) {
    if (hides(q[0], q[1])) continue;
    const [a, e] = clipped(q[0], q[1]);
    for (let x = Math.floor(a); x <= Math.min(Math.floor(e), LEFT + Math.floor(width())); ++x)
      if (!shown.has(x) || shown.get(x)[3] < q[3]) shown.set(x, q);
  }
  for (const [x, q] of shown) {
    let top = p.memoryY + MEM;
    q[2].forEach((b, i) => { const h = b / most * MEM; g.fillStyle = D.classes[i][1]; g.fillRect(x, top -= h, 1, h); });
  }
}
function gaps(p) {
  for (const [a, b] of hidden) {
    const x = Math.max(E(a), LEFT), w = Math.min(X(b), LEFT + width()) - x;
    if (w <= 0) continue;
    g.fillStyle = css('--page'); g.fillRect(x, p.memoryY - 2, w, p.bottom - p.memoryY + 4);
  }
}
function draw() {
  const ratio = devicePixelRatio || 1;
  c.style.height = height + 'px'; c.width = c.clientWidth * ratio; c.height = height * ratio;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  for (const p of P) if (!ONE) words(heading(p), 0, p.titleY + 16, {bold: 'bold'});
  for (const r of rows) {
    g.fillStyle = css('--lane'); g.fillRect(LEFT, r.y, width(), ROW);
    words(`rank ${r.rank} ${r.lane} ${Math.round(100 * r.busy / r.panel.whole)}%`, LEFT - 8, r.y + 17, {align: 'right'});
  }
  axis();
  for (const p of P) { memory(p); gaps(p); parts(p); brackets(p); }
  rows.forEach(rowBoxes); rows.forEach(underline); related();
}
function clamp(a, b) {
  const w = Math.min(Math.max(b - a, drawn * 1e-5), drawn);
  from = Math.min(Math.max(a, 0), drawn - w); to = from + w; draw();
}
const whole = () => clamp(0, drawn);
function where(e) { const q = c.getBoundingClientRect(); return [e.clientX - q.left, e.clientY - q.top]; }
function find(e) {
  const [x, up] = where(e), at = T(x), slack = 2 * (to - from) / width();
  const r = rows.find(r => up >= r.y && up <= r.y + ROW);
  if (!r || x < LEFT) return null;
  let best = null;
  for (const b of r.boxes) {
    const off = Math.max(b[1] - at, at - b[2], 0);
    if (off <= slack && (!best || off < best[0]) && !hides(b[1], b[2])) best = [off, b];
  }
  return best && [r, best[1]];
}
function memoryAt(e) {
  const [x, up] = where(e), p = P.find(p => p.memory && up >= p.memoryY && up <= p.memoryY + MEM);
  return p && x >= LEFT ? p.memory.points.findLast(q => q[0] <= T(x)) : null;
}
function foldAt(e) {
  const [x, up] = where(e), p = P.find(p => p.folds.length && up >= p.bracketY && up <= p.partsY + PARTS);
  return p && p.folds.findLast(f => { const [a, b] = foldBox(f); return x >= a && x <= b && up >= p.bracketY + BRACKET * f.depth; });
}
function tell(e, html) {
  tip.style.display = html ? 'block' : 'none'; tip.innerHTML = html;
  tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 10)) + 'px';
  tip.style.top = (e.clientY + 18 + tip.offsetHeight > innerHeight ? Math.max(4, e.clientY - tip.offsetHeight - 12) : e.clientY + 18) + 'px';
}
function show(e) {
  hit = find(e); draw();
  const m = memoryAt(e), f = foldAt(e), part = partAt(e);
  c.style.cursor = f && ONE ? 'pointer' : '';
  if (m) return tell(e, `<b>${bytes(m[3])}</b><br>` + D.classes.map(([name, colour], i) => key(colour, name + ' ' + bytes(m[2][i]))).join('<br>'));
  if (part) return tell(e, `<b>${esc(part[0])}</b> ${secs(part[2] - part[1])}`);
  if (f) return tell(e, esc(f.told) + (ONE ? `<br><span class="soft">click: ${f.open ? 'draw one of them' : 'draw all of them'}</span>` : ''));
  if (!hit) return tell(e, '');
  const [r, b] = hit, n = r.panel.notes[b[0]];
  tell(e, `<b>${esc(n.title)}</b> <span class="soft">step ${b[0]}, rank ${r.rank}, ${r.lane}</span><br>` +
    n.lines.map(l => l[0] === '%' ? `<code>${esc(l)}</code>` : esc(l)).join('<br>') +
    `<br><b>${secs(b[2] - b[1])}</b> <span class="soft">from ${secs(b[1])} to ${secs(b[2])}` +
    (b[3] ? `, ${secs(b[3] - b[1])} of them waiting for its group` : '') + '</span>');
}
function turn(folds, open) { folds.forEach(f => f.open = open); hit = null; cutAxis(); draw(); }
c.addEventListener('wheel', e => {
  e.preventDefault();
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { const s = e.deltaX / width() * (to - from); return clamp(from + s, to + s); }
  const at = from + (where(e)[0] - LEFT) / width() * (to - from), k = Math.exp(e.deltaY * .0015);
  clamp(at - (at - from) * k, at + (to - at) * k);
}, {passive: false});
c.addEventListener('pointerdown', e => { drag = [e.clientX, from, to]; c.setPointerCapture(e.pointerId); });
c.addEventListener('pointerup', e => {
  const f = ONE && drag && Math.abs(e.clientX - drag[0]) < 4 && foldAt(e);
  drag = null;
  if (f) { tell(e, ''); turn([f], !f.open); }
});
c.addEventListener('pointermove', e => {
  if (!drag) return show(e);
  const s = (drag[0] - e.clientX) / width() * (drag[2] - drag[1]); tip.style.display = 'none'; clamp(drag[1] + s, drag[2] + s);
});
c.addEventListener('pointerleave', () => { hit = null; tip.style.display = 'none'; draw(); });
c.addEventListener('dblclick', whole); $('all').onclick = whole;
if ($('fold')) $('fold').onclick = () => turn(P[0].folds, hidden.length > 0);
addEventListener('resize', draw); matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
cutAxis(); draw();
