"""Builds the optional native library. Everything else about the package is in pyproject.toml."""

from __future__ import annotations

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

FOLDER = Path("kernels/native")

COMMON = ["-O3", "-g0", "-std=c++17", "-fvisibility=hidden", "-pthread"]
# gcc says these of its own headers.
QUIET = ["-Wno-psabi", "-Wno-uninitialized", "-Wno-maybe-uninitialized"]
# Results must not depend on which product the compiler happens to fuse with which sum.
NUMERIC = ["-ffp-contract=off", "-fno-math-errno"]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [f"-mavx512{part}" for part in ("f", "bw", "vl", "dq", "vnni", "bf16")]
AMX = [f"-mamx-{part}" for part in ("tile", "int8", "bf16")]
# Each instruction set is a file of its own; the library chooses among them when it runs. A compiler or
# assembler that does not know one leaves that one out.
SETS = {
    "isa_amx": [*AVX2, *AVX512, *AMX],
    "isa_avx512": [*AVX2, *AVX512],
    "isa_avxvnni": [*AVX2, "-mavxvnni"],
    "isa_avx2": AVX2,
}
CHOOSES = "cpu"
X86 = platform.machine().lower() in ("x86_64", "amd64")


def sources() -> list[str]:
    """The files of this machine's kind."""
    found = sorted(FOLDER.glob("*.cpp"))
    return [str(path) for path in found if X86 or path.stem not in SETS]


class BuildNative(build_ext):
    """Compiles each file with the flags of its instruction set, last the one that lists those there are."""

    def build_extension(self, ext: Extension) -> None:
        first = [source for source in ext.sources if Path(source).stem != CHOOSES]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = dict(zip(first, pool.map(self.compiled, first), strict=True))
        there = [Path(source).stem for source, objects in made.items() if objects]
        macros = [f"NATIVE_{name.upper()}" for name in SETS if name in there]
        last = self.compiled(str(FOLDER / f"{CHOOSES}.cpp"), *macros)
        self.compiler.link_shared_object(
            [name for objects in (*made.values(), last) for name in objects],
            self.get_ext_fullpath(ext.name),
            extra_postargs=["-pthread"],
            build_temp=self.build_temp,
            target_lang="c++",
        )

    def compiled(self, source: str, *macros: str) -> list[str]:
        """The object of a source, none where the compiler has no such instruction set."""
        stem = Path(source).stem
        try:
            found: list[str] = self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=[(macro, "1") for macro in ("NATIVE_X86", *macros) if X86],
                extra_postargs=[*COMMON, *QUIET, *NUMERIC, *SETS.get(stem, [])],
            )
        except CompileError as error:
            if stem not in SETS:
                raise
            self.warn(f"{stem} is left out: {error}")
            return []
        return found


setup(
    ext_modules=[
        Extension(
            "optimist.kernels.native._native",
            sources(),
            depends=sorted(str(path) for path in FOLDER.glob("*.h")),
            language="c++",
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
