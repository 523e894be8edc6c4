"""What is wrong with how a command took a case: nothing, or one finding."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import PurePath

from kilotune.codegen import diagnostics
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind
from kilotune.experiments.fuzz.sandbox import Ran

EXPECTED = (ExitStatus.FEASIBLE, ExitStatus.INFEASIBLE, ExitStatus.BAD_INPUT)
MOST_LETTERS = diagnostics.MOST_LETTERS + diagnostics.MOST_LETTERS_BESIDES + 60
"""The longest message: one that repeats half of a file says nothing."""

SHOWN_THROUGH = re.compile(
    r"NoneType|object has no attribute|object is not|not subscriptable|unsupported operand|positional argument|"
    r"unexpected keyword|unhashable|index out of range|not supported between|could not be converted|must be str|"
    r"\bKeyError\b|\bTypeError\b|\bsqlalchemy\b|<class |<function |\b0x[0-9a-f]{6}|\[SQL"
)
"""Words that are Python's or a library's, and none for people."""

WRITTEN = re.compile(r"[\w./-]+: \d+\.\d MB")
"""A line that says which file was written: a report has the trials at least, whatever is wrong with the rest."""

HALF_WRITTEN = re.compile(r"\.partial$|\.tmp$|(^|/)tmp\w{8}(/|$)")
FRAME = re.compile(r'File "[^"]*?([\w.-]+/[\w.-]+\.py)", line \d+, in (\S+)')
RAISED = re.compile(r"^([\w.]+(?:Error|Exception|Exit|Iteration|Interrupt))\b", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """What is wrong, in a word (`fault`), with more about it (`detail`), and where in our code (`place`, may be empty)."""

    fault: str
    detail: str
    place: str = ""

    @property
    def signature(self) -> str:
        """Equal for findings that have one cause, as far as can be told."""
        return f"{self.fault}: {self.place or re.sub(r'[0-9]+', 'N', _unquoted(self.detail))[:160]}"


def judge(kind: Kind, case: FuzzCase, ran: Ran) -> Finding | None:
    """The first thing that is wrong with a run; None when nothing is."""
    place = _place(ran.trace or ran.stderr)
    if ran.timed_out:
        return Finding("over time", f"{ran.cpu_s:.1f} CPU-s", place)
    if ran.signal:
        return Finding("signal", signal.Signals(ran.signal).name, place)
    if "MemoryError" in ran.trace or "MemoryError" in ran.stderr:
        return Finding("over memory", _last_line(ran.trace), place)
    if "Traceback (most recent call last)" in ran.stderr:
        return Finding("traceback", _last_line(ran.stderr), place)
    if ran.status not in EXPECTED:
        return Finding(f"exit {ran.status}", _last_line(ran.trace) or _last_line(ran.stderr), place)
    if ran.status == ExitStatus.BAD_INPUT:
        wrong = _wrong_message(kind, case, ran.stderr)
        if wrong is not None:
            return Finding(wrong, ran.stderr.strip()[:MOST_LETTERS])
    return _wrong_files(kind, case, ran)


def _wrong_message(kind: Kind, case: FuzzCase, stderr: str) -> str | None:
    """What is wrong with a refusal: it is to be one sentence that names the place."""
    message = "\n".join(line for line in stderr.strip("\n").split("\n") if not WRITTEN.fullmatch(line))
    if not message.startswith("tune: ") or not message.isprintable():
        return "no single line" if "\n" in message or not message else "unprintable message"
    if len(message) > MOST_LETTERS:
        return "long message"
    if SHOWN_THROUGH.search(message):
        return "Python's own words"
    paths = [PurePath(path) for path in case.files]
    names = {name for path in paths for name in (path.name, path.stem, path.parts[0])}
    if not any(name in message for name in names | set(kind.named)):
        return "place not named"
    return None


def _wrong_files(kind: Kind, case: FuzzCase, ran: Ran) -> Finding | None:
    """What is wrong with the files: the user's are as they were, and no other is there by half."""
    for path, content in case.files.items():
        after = ran.files.get(path)
        if not kind.may_write(path) and after != content:
            return Finding("changed file", path if after is not None else f"{path} is gone")
        if kind.may_write(path) and ran.status == ExitStatus.BAD_INPUT:
            before = kind.contents(content)
            if before is not None and (after is None or kind.contents(after) != before):
                return Finding("changed file", f"{path}, although the input was refused")
    for path, content in ran.files.items():
        if path in case.files or path.startswith(".home"):
            continue
        if HALF_WRITTEN.search(path) or (path.endswith(".json") and not _is_json(content)):
            return Finding("half-written file", path)
    return None


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _place(trace: str) -> str:
    """The exception and the innermost frame of our code."""
    frames = [f"{file}:{function}" for file, function in FRAME.findall(trace)]
    own = [frame for frame in frames if "fuzz/" not in frame and "kilotune" not in frame] or frames
    raised = RAISED.findall(trace)
    return f"{raised[-1]} in {_innermost(trace) or own[-1]}" if raised and frames else ""


def _innermost(trace: str) -> str:
    """The last frame that is not of a library."""
    found = ""
    for line in trace.splitlines():
        match = FRAME.search(line)
        if match and "site-packages" not in line and "/lib/python" not in line:
            found = f"{match[1]}:{match[2]}"
    return found


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:MOST_LETTERS] if lines else ""


def _unquoted(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "Q", text)
