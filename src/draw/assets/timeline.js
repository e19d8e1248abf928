const $ = id => document.getElementById(id), c = $('c'), g = c.getContext('2d'), tip = $('tip');
const LEFT = 150, ROW = 26, GAP = 3, RANKGAP = 14, TOP = 34, FOOT = 30;
let from = 0, to = D.whole, hit = null, drag = null;
const secs = s => { for (const [f, u] of [[1, 's'], [1e3, 'ms'], [1e6, 'us']])
    if (Math.abs(s * f) >= 1 || u === 'us') return parseFloat((s * f).toPrecision(4)) + ' ' + u; };
const esc = t => t.replace(/[&<>]/g, m => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[m]));
const css = n => getComputedStyle(document.documentElement).getPropertyValue(n);
$('title').textContent = D.title + ': ' + secs(D.whole);
$('bar').innerHTML = D.kinds.map(k => `<span class="key"><i style="background:${k[1]}"></i>${k[0]}</span>`).join('') +
  '<button id="all">whole step</button>';
const M = D.memory, MEM = M ? 72 : 0;
let y = TOP + (M ? MEM + RANKGAP : 0);
D.rows.forEach((r, i) => { if (i) y += ROW + (r.rank === D.rows[i - 1].rank ? GAP : RANKGAP); r.y = y; });
const height = y + ROW + FOOT;
const width = () => c.clientWidth - LEFT - 8, X = s => LEFT + (s - from) / (to - from) * width();
const T = x => from + (x - LEFT) / width() * (to - from);

// A box is [step, start, end], and when the last of its group came. Boxes narrower than two pixels share the pixel they fall on: the kind with most time there
// colours it.
function rowBoxes(r) {
  const shared = new Map();
  for (const b of r.boxes) {
    if (b[2] < from || b[1] > to) continue;
    const a = Math.max(X(b[1]), LEFT), e = Math.min(X(b[2]), LEFT + width()), n = D.notes[b[0]];
    if (e - a < 2) {
      const at = Math.floor((a + e) / 2), kinds = shared.get(at) || {};
      shared.set(at, kinds); kinds[n.kind] = (kinds[n.kind] || 0) + e - a;
      continue;
    }
    const left = Math.round(a), w = Math.round(e - (e - a > 3 ? 1 : 0)) - left;
    const met = Math.min(Math.max(Math.round(X(b[3] || b[1])) - left, 0), w);
    g.fillStyle = D.kinds[n.kind][1]; g.fillRect(left + met, r.y, w - met, ROW);
    g.globalAlpha = .3; g.fillRect(left, r.y, met, ROW); g.globalAlpha = 1;
    if (w > 34) {
      g.fillStyle = '#fff'; g.font = '11px system-ui, sans-serif'; g.textAlign = 'left';
      let label = w > 130 ? n.title + '  %' + n.name : n.title;
      const fits = Math.floor((w - 8) / 5.9);
      if (label.length > fits) label = fits > 3 ? label.slice(0, fits - 1) + '\u2026' : '';
      g.fillText(label, a + 4, r.y + 17);
    }
  }
  for (const [at, kinds] of shared) {
    const most = Object.keys(kinds).reduce((a, b) => kinds[b] > kinds[a] ? b : a);
    g.fillStyle = D.kinds[most][1]; g.fillRect(at, r.y, 1, ROW);
  }
}
function outline(r, b, dash) {
  const a = Math.max(X(b[1]), LEFT), e = Math.min(X(b[2]), LEFT + width());
  if (e < a) return;
  g.setLineDash(dash); g.strokeStyle = css('--ink'); g.lineWidth = 2;
  g.strokeRect(a, r.y - 1, Math.max(e - a, 2), ROW + 2); g.setLineDash([]);
}
function related() {
  if (!hit) return;
  const [row, box] = hit;
  for (const r of D.rows) if (r.rank === row.rank) for (const b of r.boxes) {
    if (D.notes[box[0]].needs.includes(b[0]) && b[2] <= box[2]) outline(r, b, []);
    if (D.notes[b[0]].needs.includes(box[0]) && b[1] >= box[1]) outline(r, b, [4, 3]);
  }
  outline(row, box, []);
}
function axis() {
  const rough = (to - from) / 10, ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * ten).find(s => s >= rough);
  g.font = '11px system-ui, sans-serif'; g.textAlign = 'center';
  for (let i = Math.ceil(from / step); i * step <= to; ++i) {
    g.fillStyle = css('--line'); g.fillRect(X(i * step), TOP - 6, 1, height - TOP - FOOT + 12);
    g.fillStyle = css('--soft'); g.fillText(secs(i * step), Math.min(X(i * step), LEFT + width() - 22), height - 8);
  }
}
function parts() {
  g.font = '11px system-ui, sans-serif'; g.textAlign = 'center';
  for (const [name, s, e] of D.parts) {
    const a = Math.max(X(s), LEFT), b = Math.min(X(e), LEFT + width());
    if (b - a < 1) continue;
    g.fillStyle = css('--lane'); g.fillRect(a, 6, b - a - 1, 18);
    const label = [name, name.split(' ')[0]].find(t => b - a > t.length * 6 + 4);
    g.fillStyle = css('--soft'); if (label) g.fillText(label, (a + b) / 2, 19);
  }
}
// A point is [start, end, bytes by class, bytes]. Of those that share a pixel the one with most is drawn.
const bytes = b => { for (const [f, u] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB'], [1, 'B']])
    if (b >= f || f === 1) return parseFloat((b / f).toPrecision(3)) + ' ' + u; };
function memory() {
  if (!M) return;
  g.fillStyle = css('--lane'); g.fillRect(LEFT, TOP, width(), MEM);
  g.fillStyle = css('--soft'); g.textAlign = 'right'; g.font = '11px system-ui, sans-serif';
  g.fillText('memory of rank ' + D.rows[0].rank, LEFT - 8, TOP + 17); g.fillText('at most ' + bytes(M.most), LEFT - 8, TOP + 33);
  const shown = new Map(), end = LEFT + Math.floor(width());
  for (const p of M.points) {
    if (p[1] < from || p[0] > to) continue;
    for (let x = Math.max(Math.floor(X(p[0])), LEFT); x <= Math.min(Math.floor(X(p[1])), end); ++x)
      if (!shown.has(x) || shown.get(x)[3] < p[3]) shown.set(x, p);
  }
  for (const [x, p] of shown) {
    let top = TOP + MEM;
    p[2].forEach((b, i) => { const h = b / M.most * MEM; g.fillStyle = M.classes[i][1]; g.fillRect(x, top -= h, 1, h); });
  }
}
function memoryAt(e) {
  const q = c.getBoundingClientRect(), x = e.clientX - q.left, at = T(x), up = e.clientY - q.top;
  return M && x >= LEFT && up >= TOP && up <= TOP + MEM ? M.points.findLast(p => p[0] <= at) : null;
}
function draw() {
  const ratio = devicePixelRatio || 1;
  c.style.height = height + 'px'; c.width = c.clientWidth * ratio; c.height = height * ratio;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  for (const r of D.rows) {
    g.fillStyle = css('--lane'); g.fillRect(LEFT, r.y, width(), ROW);
    g.fillStyle = css('--soft'); g.textAlign = 'right'; g.font = '11px system-ui, sans-serif';
    g.fillText(`rank ${r.rank} ${r.lane} ${Math.round(100 * r.busy / D.whole)}%`, LEFT - 8, r.y + 17);
  }
  axis(); parts(); memory(); D.rows.forEach(rowBoxes); related();
}
function clamp(a, b) {
  const w = Math.min(Math.max(b - a, D.whole * 1e-5), D.whole);
  from = Math.min(Math.max(a, 0), D.whole - w); to = from + w; draw();
}
function find(e) {
  const q = c.getBoundingClientRect(), x = e.clientX - q.left, at = T(x), slack = 2 * (to - from) / width();
  const r = D.rows.find(r => e.clientY - q.top >= r.y && e.clientY - q.top <= r.y + ROW);
  if (!r || x < LEFT) return null;
  let best = null;
  for (const b of r.boxes) {
    const off = Math.max(b[1] - at, at - b[2], 0);
    if (off <= slack && (!best || off < best[0])) best = [off, b];
  }
  return best && [r, best[1]];
}
function tell(e, html) {
  tip.style.display = html ? 'block' : 'none'; tip.innerHTML = html;
  tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 10)) + 'px';
  tip.style.top = (e.clientY + 18 + tip.offsetHeight > innerHeight ? Math.max(4, e.clientY - tip.offsetHeight - 12) : e.clientY + 18) + 'px';
}
function show(e) {
  hit = find(e); draw();
  const m = memoryAt(e);
  if (m) return tell(e, `<b>${bytes(m[3])}</b><br>` + M.classes.map(([name, colour], i) =>
    `<span class="key"><i style="background:${colour}"></i>${name} ${bytes(m[2][i])}</span>`).join('<br>'));
  if (!hit) return tell(e, '');
  const [r, b] = hit, n = D.notes[b[0]];
  tell(e, `<b>${esc(n.title)}</b> <span class="soft">step ${b[0]}, rank ${r.rank}, ${r.lane}</span><br>` +
    n.lines.map(l => l[0] === '%' ? `<code>${esc(l)}</code>` : esc(l)).join('<br>') +
    `<br><b>${secs(b[2] - b[1])}</b> <span class="soft">from ${secs(b[1])} to ${secs(b[2])}` +
    (b[3] ? `, ${secs(b[3] - b[1])} of them waiting for its group` : '') + '</span>');
}
c.addEventListener('wheel', e => {
  e.preventDefault();
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { const s = e.deltaX / width() * (to - from); return clamp(from + s, to + s); }
  const at = T(e.clientX - c.getBoundingClientRect().left), k = Math.exp(e.deltaY * .0015);
  clamp(at - (at - from) * k, at + (to - at) * k);
}, {passive: false});
c.addEventListener('pointerdown', e => { drag = [e.clientX, from, to]; c.setPointerCapture(e.pointerId); });
c.addEventListener('pointerup', () => drag = null);
c.addEventListener('pointermove', e => {
  if (!drag) return show(e);
  const s = (drag[0] - e.clientX) / width() * (drag[2] - drag[1]); tip.style.display = 'none'; clamp(drag[1] + s, drag[2] + s);
});
c.addEventListener('pointerleave', () => { hit = null; tip.style.display = 'none'; draw(); });
c.addEventListener('dblclick', () => clamp(0, D.whole)); $('all').onclick = () => clamp(0, D.whole);
addEventListener('resize', draw); matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw); draw();
