"""A case: the files of a folder, and the arguments of the `tune` command that is to read them there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

NO_FILES: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True)
class FuzzCase:
    """`files`: contents by path relative to the folder in which the command runs. `arguments`: those of `tune`."""

    kind: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=lambda: NO_FILES)

    def with_file(self, path: str, content: bytes) -> FuzzCase:
        """A copy of this case with another content of one file, or with one file more."""
        return replace(self, files={**self.files, path: content})

    def without_file(self, path: str) -> FuzzCase:
        """A copy of this case without one of its files."""
        return replace(self, files={name: content for name, content in self.files.items() if name != path})

    @property
    def size(self) -> int:
        """Bytes of all files and arguments: what minimising makes small."""
        return sum(map(len, self.files.values())) + sum(map(len, self.arguments))

    def as_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads; contents that are UTF-8 text stay readable."""
        files = {path: _written(content) for path, content in self.files.items()}
        return {"kind": self.kind, "arguments": list(self.arguments), "files": files}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FuzzCase:
        """The case of `as_json`."""
        files = {path: _read(content) for path, content in stored["files"].items()}
        return cls(stored["kind"], tuple(stored["arguments"]), files)


def _written(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _read(written: Mapping[str, str]) -> bytes:
    return written["text"].encode() if "text" in written else base64.b64decode(written["base64"])
