#!/usr/bin/env python3
"""What several processes of one run write into one file: the first of them alone does, whole, and nothing is left
beside it. The argument is the program."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TINY = "configs/tiny.toml"
SMALL = ["train.batch_size=4", "train.steps=2", "train.eval_every=0", "data.path=README.md"]


class LaunchedFiles(unittest.TestCase):
    program = None

    def launched(self, ranks, *words):
        with_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                     "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        done = subprocess.run(["mpirun", "-n", str(ranks), self.program, *map(str, words)], capture_output=True, errors="replace",
                              timeout=120, env={**os.environ, **with_root})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_pictures_of_a_measured_step(self):
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(3):  # where all ranks write, one of seven turns goes well
                svg, html = Path(folder, f"{turn}.svg"), Path(folder, f"{turn}.html")
                self.launched(2, "show", TINY, "mesh.ep=2", *SMALL, "--measure", "--svg", svg, "--html", html)
                self.assertTrue(svg.read_text().endswith("</svg>\n"))
                self.assertTrue(html.read_text().endswith("</html>\n"))
            self.assertEqual(len(os.listdir(folder)), 6, os.listdir(folder))

    def test_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder, "step.csv")
            self.launched(2, "show", TINY, "mesh.ep=2", *SMALL, "--csv", table)
            self.assertTrue(table.read_text().startswith("what,kind,unit,A\nstep,"))
            self.assertEqual(os.listdir(folder), ["step.csv"])

    def test_the_trace_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "tr.json")
            self.launched(4, "train", TINY, "mesh.tp=2", "mesh.ep=2", *SMALL, f"log.dir={folder}/run", "--trace", trace)
            events = json.loads(trace.read_text())["traceEvents"]
            self.assertEqual({e["pid"] for e in events}, {0, 1, 2, 3})
            self.assertEqual(sorted(os.listdir(folder)), ["run", "tr.json"])


if __name__ == "__main__":
    LaunchedFiles.program = Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
