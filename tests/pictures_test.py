#!/usr/bin/env python3
"""Looks at the drawings of `plait show` in a headless Chromium: a step of about 1,000 steps, as a page and as a picture.
The arguments are the program and a folder for what the browser saw. Without a browser the exit code is 77: skipped."""
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

WIDTH, HEIGHT = 1400, 480
SKIPPED = 77
BROWSERS = ["chromium-headless-shell", "chromium", "google-chrome"]
PRODUCT, EXCHANGE = (0x3B, 0x76, 0xD6), (0x2A, 0x9D, 0x6F)  # the colours of a matrix product and of an all_to_all
MESSAGES = [EXCHANGE, (0xD6, 0x4F, 0x4F), (0xE3, 0x9A, 0x2D), (0xC9, 0x77, 0x2B)]

# A step of 17 layers; every second has experts.
BIG = ["configs/shakespeare.toml", "schedule.lanes=true", "model.num_hidden_layers=17", "train.batch_size=32"]

# Runs after the page's own script: points at the widest product of rank 0, reads what the page then shows, zooms in.
PROBE = """
<script>
addEventListener('load', () => {
  const row = D.rows[0], widest = row.boxes.filter(b => D.notes[b[0]].title === 'einsum')
    .reduce((a, b) => b[2] - b[1] > a[2] - a[1] ? b : a);
  const q = c.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  const at = {clientX: q.left + X((widest[1] + widest[2]) / 2), clientY: q.top + row.y + 13, bubbles: true};
  const seen = {errors: window.errors, steps: D.notes.length, rows: D.rows.length, fits: document.documentElement.scrollWidth <= innerWidth};
  c.dispatchEvent(new PointerEvent('pointermove', at));
  const tip = $('tip').getBoundingClientRect();
  seen.tip = $('tip').innerText;
  seen.tipInside = tip.left >= 0 && tip.right <= innerWidth && tip.top >= 0 && tip.bottom <= innerHeight && tip.width > 0;
  const colours = r => { const set = {};
    const line = g.getImageData(LEFT * ratio, (r.y + 2) * ratio, width() * ratio, 1).data;
    for (let i = 0; i < line.length; i += 4) { const k = line.slice(i, i + 3).join(); set[k] = (set[k] || 0) + 1; }
    return set; };
  seen.colours = D.rows.map(colours);
  const before = to - from;
  for (let i = 0; i < 5; ++i) c.dispatchEvent(new WheelEvent('wheel', {...at, deltaY: -600, cancelable: true}));
  seen.zoom = before / (to - from);
  c.dispatchEvent(new MouseEvent('dblclick', at));
  seen.back = from === 0 && to === D.whole;
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
        for name in ["step.html", "step.svg"]:
            rows = self.look(name)
            full = [row for row in rows if runs(row, PRODUCT) > 60]
            self.assertGreater(len(full), 4 * 15, f"{name}: the computation of four ranks")
            wire = [row for row in rows if sum(runs(row, m) for m in MESSAGES) > 40 and runs(row, PRODUCT) == 0]
            self.assertGreater(len(wire), 4 * 15, f"{name}: the messages of four ranks")


if __name__ == "__main__":
    Pictures.program = Path(sys.argv.pop(1)).resolve()
    Pictures.folder = Path(sys.argv.pop(1)).resolve()
    Pictures.folder.mkdir(parents=True, exist_ok=True)
    Pictures.browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not Pictures.browser:
        print("no browser: ./plait setup --check installs chromium-headless-shell")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
