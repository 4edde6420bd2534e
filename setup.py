"""Builds the lane in C, where a C compiler is there; everything else about the package is in pyproject.toml.

Each `src/pyromq/lane/c/_NAME.c` becomes the module `pyromq.lane._NAME`, for the stable ABI: one binary for all Pythons
from 3.11 on. A module that cannot be built is left out, and the plain lane does its work. With `PYROMQ_LANE=plain`
nothing is built: that makes a wheel for every machine.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("src/pyromq/lane/c")

if os.environ.get("PYROMQ_LANE") == "plain":
    setup()
else:
    setup(
        ext_modules=[
            Extension(
                f"pyromq.lane.{source.stem}",
                [source.as_posix()],
                depends=[header.as_posix() for header in sorted(SOURCES.glob("*.h"))],
                define_macros=[("Py_LIMITED_API", "0x030B0000")],
                extra_compile_args=[] if os.name == "nt" else ["-O2", "-Wall", "-Wextra"],
                py_limited_api=True,
                optional=True,
            )
            for source in sorted(SOURCES.glob("_*.c"))
        ],
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
