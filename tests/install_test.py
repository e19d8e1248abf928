#!/usr/bin/env python3
"""Installs Plait, builds examples/own_schedule with what was installed, and runs it; then lacks what it was built with.

Usage: install_test.py SOURCES BUILD; works in BUILD/installed.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SOURCES, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
WORK = BUILD / "installed"
PREFIX = WORK / "prefix"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=500, **options)


def configure(folder, prefix, *options):
    return run("cmake", "-G", "Ninja", "-S", SOURCES / "examples/own_schedule", "-B", WORK / folder,
               f"-DCMAKE_PREFIX_PATH={prefix}", *options)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        done = run("cmake", "--install", BUILD, "--prefix", PREFIX)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_project_defines_verifies_and_draws_a_family_of_its_own(self):
        for done in (configure("project", PREFIX), run("cmake", "--build", WORK / "project")):
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = run(WORK / "project/own_schedule", cwd=WORK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r"gather_first, mesh\.\S.*: largest \S+, agrees\n", done.stdout)), 3, done.stdout)
        self.assertRegex(done.stdout, r"a slip: .*schedule\.moe.*gather_frist.*gather_first")
        self.assertIn("<svg", (WORK / "own_schedule.svg").read_text())

    def test_the_program_runs_where_it_was_installed(self):
        done = run(PREFIX / "bin/plait", "config", SOURCES / "configs/tiny.toml", cwd=WORK)
        self.assertEqual(done.returncode, 0, done.stderr)

    # The package says why in one line.
    def refuses(self, done, why):
        self.assertNotEqual(done.returncode, 0)
        said = re.sub(r"\s+", " ", done.stderr)
        self.assertIn(why, said)

    def test_another_libtorch_is_refused(self):
        header = WORK / "torch/include/torch/headeronly/version.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("".join(f"#define TORCH_VERSION_{part} {n}\n" for part, n in
                                  (("MAJOR", 2), ("MINOR", 1), ("PATCH", 7))))
        self.refuses(configure("other_torch", PREFIX, f"-DPLAIT_TORCH_DIR={WORK / 'torch'}"), "torch holds 2.1.7: set")

    def test_a_missing_libtorch_is_refused(self):
        self.refuses(configure("no_torch", PREFIX, f"-DPLAIT_TORCH_DIR={WORK}/nowhere"), "nowhere holds none: set")

    def test_another_abi_is_refused(self):
        self.refuses(configure("other_abi", PREFIX, "-DCMAKE_CXX_FLAGS=-D_GLIBCXX_USE_CXX11_ABI=0"), "C++11 ABI")

    def test_another_processor_is_refused(self):
        """With the program's own words: here a script stands for one that was built for more."""
        other = WORK / "other"
        shutil.copytree(PREFIX, other, symlinks=True)
        program = other / "bin/plait"
        program.unlink()
        program.write_text("#!/bin/sh\necho 'plait was built for AVX-2048, this processor has none'\nexit 2\n")
        os.chmod(program, 0o755)
        self.refuses(configure("other_processor", other), "plait was built for AVX-2048, this processor has none")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
