#!/usr/bin/env python3
"""Looks at what plait draws in a headless Chromium: a step of about 1,000 steps, as a page and as a picture, and the
report of a grid. The arguments are the program and a folder for what the browser saw. Without a browser the exit code is 77: skipped."""
import base64
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

WIDTH, HEIGHT = 1400, 640
SKIPPED = 77
BROWSERS = ["chromium-headless-shell", "chromium", "google-chrome"]
PRODUCT, EXCHANGE = (0x34, 0x72, 0xD2), (0x2A, 0x9D, 0x6F)  # the colours of a matrix product and of an all_to_all
MESSAGES = [EXCHANGE, (0xD6, 0x4F, 0x4F), (0xE3, 0x9A, 0x2D), (0xC9, 0x77, 0x2B)]

# A step of 17 layers; every second has experts.
BIG = ["configs/shakespeare.toml", "schedule.lanes=true", "model.num_hidden_layers=17", "train.batch_size=32"]

# Runs after the page's own script: points at the widest product of rank 0, reads what the page then shows, zooms in.
PROBE = """
<script>
addEventListener('load', () => {
  const p = P[0], row = p.rows[0], products = row.boxes.filter(b => p.notes[b[0]].title === 'einsum');
  const bracket = p.folds.map(f => f.told), one = hidden.length;
  $('fold').click();
  const widest = products.reduce((a, b) => b[2] - b[1] > a[2] - a[1] ? b : a);
  const q = c.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  const at = {clientX: q.left + X((widest[1] + widest[2]) / 2), clientY: q.top + row.y + 13, bubbles: true};
  const seen = {errors: window.errors, steps: p.notes.length, rows: p.rows.length, bracket, one, all: hidden.length, fits: document.documentElement.scrollWidth <= innerWidth};
  c.dispatchEvent(new PointerEvent('pointermove', at));
  const tip = $('tip').getBoundingClientRect();
  seen.tip = $('tip').innerText;
  seen.tipInside = tip.left >= 0 && tip.right <= innerWidth && tip.top >= 0 && tip.bottom <= innerHeight && tip.width > 0;
  const colours = r => { const set = {};
    const line = g.getImageData(LEFT * ratio, (r.y + 2) * ratio, width() * ratio, 1).data;
    for (let i = 0; i < line.length; i += 4) { const k = line.slice(i, i + 3).join(); set[k] = (set[k] || 0) + 1; }
    return set; };
  seen.colours = p.rows.map(colours);
  const before = to - from;
  for (let i = 0; i < 5; ++i) c.dispatchEvent(new WheelEvent('wheel', {...at, deltaY: -600, cancelable: true}));
  seen.zoom = before / (to - from);
  c.dispatchEvent(new MouseEvent('dblclick', at));
  seen.back = from === 0 && to === drawn;
  document.body.innerHTML = '<pre id="seen">' + btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) + '</pre>';
});
</script>"""
# What a page says of itself, and what a click on the bracket over equal layers does.
WORDS = """
<script>
addEventListener('load', () => {
  const p = P[0], q = c.getBoundingClientRect(), shown = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0; };
  const keys = id => [...document.querySelectorAll(`#${id} .key`)].filter(shown)
    .map(e => [e.innerText, getComputedStyle(e.querySelector('i')).backgroundColor]);
  const seen = {errors: window.errors, time: keys('bar'), memory: keys('memory'), words: $('words').innerText, folds: []};
  for (const f of p.folds) {
    const [a, b] = foldBox(f), at = {clientX: q.left + (a + b) / 2, clientY: q.top + p.bracketY + 14, pointerId: 1};
    c.setPointerCapture = () => {};
    const click = () => ['pointerdown', 'pointerup'].forEach(kind => c.dispatchEvent(new PointerEvent(kind, at)));
    const before = hidden.length; click();
    const opened = hidden.length; click();
    seen.folds.push([f.drawn, b - a, before, opened, hidden.length]);
  }
  seen.inks = D.kinds.map(k => [k[0], k[1], k[2]]);
  const pale = p.rows.flatMap(r => r.boxes).filter(b => b[3]).length;
  seen.pale = pale; seen.parts = p.parts.map(q => q[0]);
  document.body.innerHTML = '<pre id="seen">' + btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) + '</pre>';
});
</script>"""
# What the report of a grid shows.
GRID_PROBE = """
<script>
addEventListener('load', () => {
  const all = q => [...document.querySelectorAll(q)], inside = e => {
    const a = e.getBoundingClientRect(), b = e.closest('svg').getBoundingClientRect();
    return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom && a.width > 0; };
  const seen = {errors: window.errors, fits: document.documentElement.scrollWidth <= innerWidth,
    layers: all('details tr').length - 1, points: all('#scatter circle').length,
    bars: all('#histogram rect title').map(t => parseInt(t.textContent)),
    inside: all('svg circle, svg rect').every(inside)};
  document.body.innerHTML = '<pre id="seen">' + btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) + '</pre>';
});
</script>"""
CATCH = "<script>window.errors = []; onerror = message => { errors.push(String(message)); };</script>"


def browse(browser, page, *what):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000",
             f"--window-size={WIDTH},{HEIGHT}"]
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([browser, *flags, f"--user-data-dir={profile}", *what, Path(page).resolve().as_uri()],
                              capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def png_pixels(path):
    """Rows of (r, g, b): only what a browser writes, 8 bits a channel and not interlaced."""
    data, at, packed = Path(path).read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and not interlaced
        if kind == b"IDAT":
            packed += body
        at += size + 12
    channels = 3 if colour == 2 else 4
    raw, stride, above, rows = zlib.decompress(packed), width * channels, bytes(width * channels), []
    for y in range(height):
        mode, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if mode else 0):
            left = line[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            guess = left + above[i] - corner
            by_distance = min((abs(guess - left), 0, left), (abs(guess - above[i]), 1, above[i]),
                              (abs(guess - corner), 2, corner))[2]
            line[i] = (line[i] + (left, above[i], (left + above[i]) // 2, by_distance)[mode - 1]) & 255
        rows.append([tuple(line[x:x + 3]) for x in range(0, stride, channels)])
        above = bytes(line)
    return rows


def runs(line, colour):
    """How many pieces of this colour a line of pixels has."""
    same = [pixel == colour for pixel in line]
    return sum(now and not before for before, now in zip([False] + same, same))


def contrast(a, b):
    """Of two colours "#rrggbb", as WCAG 2 defines it."""
    def luminance(colour):
        channels = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    high, low = sorted([luminance(a) + 0.05, luminance(b) + 0.05], reverse=True)
    return high / low


class Pictures(unittest.TestCase):
    program = browser = folder = None

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([cls.program, "show", *BIG, "--html", cls.folder / "step.html", "--svg", cls.folder / "step.svg"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_the_page_shows_a_thousand_steps_and_the_types_under_the_pointer(self):
        page = (self.folder / "step.html").read_text()
        probed = self.folder / "probed.html"
        probed.write_text(page.replace("<head>", "<head>" + CATCH).replace("</body>", PROBE + "</body>"))
        dom = browse(self.browser, probed, "--dump-dom")
        found = re.search(r'<pre id="seen">([^<]*)</pre>', dom)
        self.assertTrue(found, dom[-600:])
        seen = json.loads(base64.b64decode(found[1]))
        self.assertEqual(seen["errors"], [])
        self.assertGreater(seen["steps"], 1000)
        self.assertEqual(seen["rows"], 8, "compute and node of four ranks")
        self.assertEqual([re.sub(r",.*", "", b) for b in seen["bracket"]],
                         ["l0-l15: 8 equal groups of 2 layers", "l15-l0 backward: 8 equal groups of 2 layers"])
        self.assertEqual((seen["one"], seen["all"]), (2, 0), "a button opens them")
        self.assertTrue(seen["fits"], "the page is wider than its window")
        self.assertRegex(seen["tip"], r"einsum step \d+, rank 0, compute\n%[\w.]+ : real \[.*\].*\n.*flop")
        self.assertTrue(seen["tipInside"], "the words beside the pointer leave the window")
        product, exchange = ",".join(map(str, PRODUCT)), ",".join(map(str, EXCHANGE))
        self.assertGreater(seen["colours"][0].get(product, 0), 500)
        self.assertGreater(seen["colours"][1].get(exchange, 0), 3)
        self.assertNotIn(product, seen["colours"][1])
        self.assertGreater(seen["zoom"], 50)
        self.assertTrue(seen["back"], "a double click shows the whole step again")

    def look(self, name):
        shot = self.folder / f"{name}.png"
        browse(self.browser, self.folder / name, f"--screenshot={shot}")
        rows = png_pixels(shot)
        self.assertEqual((len(rows[0]), len(rows)), (WIDTH, HEIGHT))
        return rows

    def test_on_screen_every_part_of_the_step_can_be_told_apart(self):
        page = (self.folder / "step.html").read_text()
        (self.folder / "opened.html").write_text(page.replace("</body>", "<script>$('fold').click()</script></body>"))
        # Of 17 layers all, or of each pass the two that stand for the equal ones, and the one that is left.
        for name, products, messages in [("opened.html", 60, 40), ("step.svg", 30, 25)]:
            rows = self.look(name)
            full = [row for row in rows if runs(row, PRODUCT) > products]
            self.assertGreater(len(full), 4 * 15, f"{name}: the computation of four ranks")
            wire = [row for row in rows if sum(runs(row, m) for m in MESSAGES) > messages and runs(row, PRODUCT) == 0]
            self.assertGreater(len(wire), 4 * 15, f"{name}: the messages of four ranks")

    def draw(self, name, *words):
        done = subprocess.run([self.program, "show", *words, "--html", self.folder / f"{name}.html", "--svg",
                               self.folder / f"{name}.svg"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.folder / f"{name}.html").read_text()
        self.assertNotRegex(page, r"https?://|(src|href)=")
        probed = self.folder / f"{name}_probed.html"
        probed.write_text(page.replace("<head>", "<head>" + CATCH).replace("</body>", WORDS + "</body>"))
        found = re.search(r'<pre id="seen">([^<]*)</pre>', browse(self.browser, probed, "--dump-dom"))
        seen = json.loads(base64.b64decode(found[1]))
        self.assertEqual(seen["errors"], [])
        return seen, (self.folder / f"{name}.svg").read_text()

    def check_words(self, seen, svg):
        """Nothing is drawn that no legend explains, no two things have one colour, and words in boxes can be read."""
        self.assertEqual(len(seen["memory"]), 7, "the memory's own legend, without a pointer")
        time, memory = ({colour for _, colour in seen[name]} for name in ("time", "memory"))
        self.assertEqual(time & memory, set())
        for text in (seen["words"], svg):
            for words in ["l0, l1, ..: layers", "backward (b): their gradients", "update: ", "node: its messages within a node",
                          "%: the share of the time", "Critical path: ", "leave: partial sums", "exchange: rows go"]:
                self.assertIn(words, text)
        for x, words in re.findall(r'<text class="" x="([\d.]+)"[^>]*>([^<]*)</text>', svg):
            self.assertLess(float(x) + 5.6 * len(words), 1200, words)
        for name, colour, ink in seen["inks"]:
            self.assertGreater(contrast(colour, ink), 4.5, name)
        inks = {"in mid": "#ffffff", "in mid dark": "#111111"}
        inside = re.findall(r'<rect class="box"[^>]*fill="(#\w+)"><title>[^<]*</title></rect>\n<text class="(in[^"]*)"', svg)
        for colour, look in inside:
            self.assertGreater(contrast(colour, inks[look]), 4.5, f"{look} on {colour}")
        return inside

    def test_a_predicted_step_is_explained_and_can_be_read(self):
        seen, svg = self.draw("small", "configs/tiny.toml", "mesh.tp=2", "mesh.ep=2", "schedule.lanes=true",
                              "schedule.order=overlap")
        self.assertGreater(len(self.check_words(seen, svg)), 3)
        self.assertEqual(seen["folds"], [])
        self.assertNotIn("waiting for its group", svg)
        self.assertGreater(seen["parts"].index("update"), 0)
        self.assertIn("l0 backward", seen["parts"])

    def test_a_measured_step_says_what_pale_means(self):
        seen, svg = self.draw("measured", "configs/tiny.toml", "mesh.tp=2", "mesh.ep=2", "schedule.lanes=true", "--measure")
        self.check_words(seen, svg)
        self.assertGreater(seen["pale"], 10)
        self.assertIn("pale: waiting for its group", [words for words, _ in seen["time"]])
        self.assertIn("pale: waiting for its group</text>", svg)
        self.assertIn("waiting counted", svg)

    def test_of_many_equal_layers_one_is_drawn_and_a_click_opens_them(self):
        many = ["configs/tiny.toml", "mesh.tp=2", "mesh.ep=2", "schedule.lanes=true", "model.num_hidden_layers=24"]
        seen, svg = self.draw("layers", *many)
        self.check_words(seen, svg)
        self.assertEqual([re.sub(r", [^,]*$", "", f[0]) for f in seen["folds"]],
                         ["l0-l23: 12 equal groups of 2 layers, 1 drawn",
                          "l22-l1 backward: 11 equal groups of 2 layers, 1 drawn"])
        for _, width, before, opened, after in seen["folds"]:
            self.assertGreater(width, 100)
            self.assertEqual((before, opened, after), (2, 1, 2))
        self.assertEqual(re.findall(r">(\+\d+)</text>", svg), ["+11", "+10"])
        strip = re.findall(r'class="part" x="([\d.]+)"[^>]* width="([\d.]+)".*?</rect>(\n<text)?', svg)
        self.assertLess(len(strip), 30)
        self.assertGreater(sum(float(w) for _, w, label in strip if label), 0.9 * sum(float(w) for _, w, _ in strip),
                           "what is drawn has a name")
        seen, _ = self.draw("overlap", *many, "schedule.order=overlap", "moe.every=1")
        self.assertRegex(seen["folds"][0][0], r"^l0-l22: 23 equal layers, 1 drawn, ")
        seen, _ = self.draw("batches", "configs/tiny.toml", "mesh.ep=2", "train.micro_batch_size=2")
        self.assertIn("equal micro-batches", seen["folds"][0][0])

    def test_two_schedules_stand_on_one_axis(self):
        seen, svg = self.draw("two", "configs/tiny.toml", "mesh.tp=2", "mesh.ep=2", "--with", "schedule.lanes=true",
                              "schedule.order=overlap")
        self.check_words(seen, svg)
        titles = re.findall(r'<text class="panel"[^>]*>([^<]*)</text>', svg)
        self.assertEqual([re.sub(r": [^:]*$", "", t) for t in titles],
                         ["configs/tiny.toml mesh.tp=2 mesh.ep=2 on 4 ranks, predicted on a laptop",
                          "configs/tiny.toml mesh.tp=2 mesh.ep=2 schedule.lanes=true schedule.order=overlap on 4 ranks, "
                          "predicted on a laptop"])

    def test_a_page_can_be_read_by_day_and_by_night(self):
        self.draw("small", "configs/tiny.toml", "mesh.tp=2", "mesh.ep=2", "schedule.lanes=true", "schedule.order=overlap")
        for night, paper in [(0, (255, 255, 255)), (1, (0x12, 0x16, 0x1B))]:
            shot = self.folder / f"small_{night}.png"
            flags = ["--blink-settings=preferredColorScheme=0"] if night else []
            browse(self.browser, self.folder / "small.html", *flags, f"--screenshot={shot}")
            colours = {}
            for row in png_pixels(shot):
                for pixel in row:
                    colours[pixel] = colours.get(pixel, 0) + 1
            self.assertEqual(max(colours, key=colours.get), paper)
            self.assertGreater(sum(n for pixel, n in colours.items() if abs(sum(pixel) - sum(paper)) > 450), 2000)

    def report(self):
        """The page of a grid of 24 layers, with numbers that are known: auto is 1.5 times as fast as parm, and more."""
        lines = ["# plait bench grid,links=200mbit,ranks=4,node=2,threads=1,rounds=5,grid=a,machine=b,peer=",
                 "layer,ranks,tp,esp,ep,sequences,positions,width,hidden,experts,top_k,factor,variant,schedule,ms,low,high,"
                 "predicted_ms,differs,note"]
        for i, (tp, esp) in enumerate((tp, esp) for tp in (1, 2, 4) for esp in (1, 2, 4) if (tp, esp) != (1, 1)):
            for n in range(3):
                auto = 20 + 7 * i + 11 * n
                ms = {"s1 fused": 1.25 * auto, "s2 fused": 1.3 * auto, "sharded": 1.05 * auto, "parm": (1.5 + i) * auto,
                      "auto": auto}
                if tp == esp:
                    ms = {"ted": 1.4 * auto, **ms}
                for name, time in ms.items():
                    lines.append(f"t{tp}e{esp}-{n + 1:02},4,{tp},{esp},{4 // esp},1,64,128,256,4,2,0,{name},{name},{time:.3f},"
                                 f"{time * .97:.3f},{time * 1.04:.3f},{time * (1 + .04 * n):.3f},0,")
        table = self.folder / "grid.csv"
        table.write_text("\n".join(lines) + "\n")
        done = subprocess.run([self.program, "bench", "grid", "--report", table, "--html", self.folder / "grid.html"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, (self.folder / "grid.html").read_text()

    def test_the_report_of_a_grid_shows_every_layer_and_every_prediction(self):
        text, page = self.report()
        self.assertRegex(text, r"parm +all +24 +\S+ +5\.00x +1\.50x +8\.50x")
        self.assertNotRegex(page, r"(src|href)=|<script|\bnan\b")
        probed = self.folder / "grid_probed.html"
        probed.write_text(page.replace("<head>", "<head>" + CATCH).replace("</body>", GRID_PROBE + "</body>"))
        found = re.search(r'<pre id="seen">([^<]*)</pre>', browse(self.browser, probed, "--dump-dom"))
        seen = json.loads(base64.b64decode(found[1]))
        self.assertEqual(seen["errors"], [])
        self.assertTrue(seen["fits"], "the page is wider than its window")
        self.assertEqual(seen["layers"], 24)
        self.assertEqual(seen["points"], 24 * 5 + 6, "every way of every layer, auto once")
        self.assertEqual(sum(seen["bars"]), 24)
        self.assertEqual(len(seen["bars"]), 8, "1.5, 2.5, .. 8.5 times as fast")
        self.assertTrue(seen["inside"], "a point or a bar lies outside its picture")

    def test_the_report_of_a_grid_can_be_read_by_day_and_by_night(self):
        self.report()
        for night, paper in [(0, (255, 255, 255)), (1, (0x12, 0x16, 0x1B))]:
            shot = self.folder / f"grid_{night}.png"
            flags = ["--blink-settings=preferredColorScheme=0"] if night else []
            browse(self.browser, self.folder / "grid.html", *flags, f"--screenshot={shot}")
            rows = png_pixels(shot)
            colours = {}
            for row in rows:
                for pixel in row:
                    colours[pixel] = colours.get(pixel, 0) + 1
            self.assertEqual(max(colours, key=colours.get), paper)
            ink = [n for pixel, n in colours.items() if abs(sum(pixel) - sum(paper)) > 450]
            self.assertGreater(sum(ink), 2000, "words that stand out from the paper")


if __name__ == "__main__":
    Pictures.program = Path(sys.argv.pop(1)).resolve()
    Pictures.folder = Path(sys.argv.pop(1)).resolve()
    Pictures.folder.mkdir(parents=True, exist_ok=True)
    Pictures.browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not Pictures.browser:
        print("no browser: ./plait setup --check installs chromium-headless-shell")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
