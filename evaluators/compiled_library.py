"""Our own C, compiled once per machine with the compiler that is there, kept, and loaded."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from platformdirs.unix import Unix

X86_64 = ("x86_64", "AMD64")
NATIVE = ("-march=native",) if platform.machine() in X86_64 else ()
"""Elsewhere not all compilers know the word, and would refuse the whole library; every 64-bit ARM processor has NEON anyway."""
FLAGS = ("-O3", *NATIVE, "-fwrapv", "-std=gnu11", "-shared", "-fPIC")
PREPROCESS = ("-x", "c", "-E", "-")  # what is read from standard input
INCLUDED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
PROBE, PREPROCESSED = b"kilotune __STDC__\n", b"kilotune 1"


@dataclass(frozen=True)
class CompiledLibrary:
    """The loaded library and the command of the compiler that made it."""

    library: ctypes.CDLL
    compiler: str


def load_library(source: Path, libraries: Sequence[str] = (), macros: Sequence[str] = ()) -> CompiledLibrary | None:
    """The library of one C file, which may include others, use system `libraries` (simavr for libsimavr.so) and have `macros` set
    ("NAME=value").

    None when there is no working C compiler, or when a library or its headers are missing. ValueError, a sentence, when $CC
    is no command, or no C compiler, or has options that it refuses.

    It is compiled again only when it, a file that it includes, the compiler, the flags or the processor change.
    """
    compiler = find_compiler()
    if compiler is None:
        return None
    try:
        built = _built(compiler, source, (libraries, macros), cache_folder())
        return CompiledLibrary(ctypes.CDLL(str(built)), shlex.join(compiler))
    except subprocess.SubprocessError:
        return None
    except (
        OSError
    ):  # a cache folder that may not be written, or does not let libraries run: for this process only, then
        with contextlib.suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as scratch:
            built = _built(compiler, source, (libraries, macros), Path(scratch))
            return CompiledLibrary(ctypes.CDLL(str(built)), shlex.join(compiler))
        return None


def build_library(source: Path) -> Path | None:
    """Build a C source into a shared library without loading it: a plugin, whose symbols only its host can resolve."""
    compiler = find_compiler()
    try:
        return None if compiler is None else _built(compiler, source, ((), ()), cache_folder())
    except (OSError, subprocess.SubprocessError):
        return None


def find_compiler() -> tuple[str, ...] | None:
    """$CC, which may have options (`ccache gcc`, `gcc -m32`), as a shell would take it apart; else what is usual, None where
    there is none. ValueError, a sentence, when $CC is no command, or no C compiler, or has options that it refuses: whoever
    begins a search calls it first, so that such a one leaves no study behind."""
    chosen = os.environ.get("CC", "")
    try:
        words = shlex.split(chosen)
    except ValueError as error:
        message = f"CC={chosen}: expected a command, found one that no shell reads ({error})."
        raise ValueError(message) from None
    if words:
        _check(words, chosen)
        return tuple(words)
    return next(((command,) for command in ("cc", "gcc", "clang") if shutil.which(command)), None)


def _check(words: Sequence[str], chosen: str) -> None:
    """ValueError when somebody has chosen what can't be used: another compiler in its place would be a surprise."""
    if not shutil.which(words[0]):
        raise ValueError(f"CC={chosen}: expected a C compiler, found no command {words[0]} on the path.")
    try:
        made = subprocess.run([*words, *PREPROCESS], input=PROBE, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines() or [str(error)]
        raise ValueError(f"CC={chosen}: expected a C compiler, found one that refuses its options: {said[0]}") from None
    if PREPROCESSED not in made:
        raise ValueError(f"CC={chosen}: expected a C compiler, found a command that is none: it preprocesses no C.")


def cache_folder() -> Path:
    """Where compiled libraries are kept between runs: $KILOTUNE_CACHE, else the user's cache folder."""
    chosen = os.environ.get("KILOTUNE_CACHE")
    return Path(chosen) if chosen else Unix("kilotune").user_cache_path


def _built(compiler: tuple[str, ...], source: Path, asked: tuple[Sequence[str], Sequence[str]], folder: Path) -> Path:
    """`asked`: system libraries and macros."""
    texts = [path.read_bytes() for path in _with_included(source)]
    linked = [f"-l{name}" for name in (*asked[0], "m")]
    flags = [*FLAGS, *(f"-D{macro}" for macro in asked[1])]
    command, options = _command_and_options(compiler)
    parts = (*texts, _version(compiler), " ".join([*compiler[1:], *flags, *linked]).encode(), _processor().encode())
    target = folder / f"{source.stem}-{hashlib.sha256(bytes(0).join(parts)).hexdigest()[:20]}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / "built.so"
            line = [*command, *flags, *options, "-o", str(built), str(source), *linked]
            subprocess.run(line, capture_output=True, check=True, timeout=300)
            built.replace(target)
    return target


def _with_included(source: Path) -> list[Path]:
    """The file and those of our own that it includes, at any depth, each once."""
    found = [source]
    for path in found:  # grows meanwhile
        beside = (path.parent / name.decode() for name in INCLUDED.findall(path.read_bytes()))
        found += (other for other in dict.fromkeys(beside) if other not in found and other.exists())
    return found


def _command_and_options(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`ccache gcc` and `-mno-avx512f`: options come after ours on the command line, where the last one counts."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], words[first:]


@cache
def _version(compiler: tuple[str, ...]) -> bytes:
    return subprocess.run([*compiler, "--version"], capture_output=True, check=True, timeout=60).stdout


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
