"""A software pack for Cortex-M (Open-CMSIS-Pack): the model as a component that an IDE or csolution project chooses.

The description follows PACK.xsd of the Open-CMSIS-Pack specification, version 1.7.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import escape, quoteattr

from kilotune.codegen.emit.targets.recording import Export, check_program, facts
from kilotune.codegen.emit.targets.target import ProjectTarget

VENDOR, NAME, VERSION = "kilotune", "model", "1.0.0"
"""Who makes the pack, what it is called and its version; its description is `VENDOR.NAME.pdsc`. Before it is published, vendor and name
are to be changed."""

MOST_IN_A_NAME = 32
"""Characters of a part of a component's identifier."""


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder."""
    source = export.source
    return {
        f"{VENDOR}.{NAME}.pdsc": _description(export.name),
        "model/model.h": source.header,
        "model/model.c": source.source,
        "check/main.c": check_program(export, export.recording),
        "README.md": (
            "# A fixed-point model as a CMSIS-Pack\n\nWritten by kilotune. `model` holds the model: C99, no libraries, no heap.\n\n"
            f"{facts(source)}\n"
            f"Next: `cpackget add {VENDOR}.{NAME}.pdsc` makes the folder a local pack; the component "
            f"`Machine Learning:{_group(export.name)}` can then be chosen in a csolution project, in Keil Studio or in another IDE that "
            "knows packs (compile it with -fwrapv or its like). `check/main.c`, the component's template, runs "
            f"{len(export.recording)} recorded inputs and compares every output with what the simulator computed. Every export is the pack "
            f"`{VENDOR}.{NAME}` {VERSION}: before a second model is added beside it, or the pack is handed on (zip the folder as "
            f"`{VENDOR}.{NAME}.{VERSION}.pack`), give it a name of its own, in the "
            "description and in the name of its file. `decisions.json` holds the bits and the scale of each variable.\n"
        ),
    }


def _group(folder: str) -> str:
    """The folder's name as a part of an identifier: letters, digits and what else PACK.xsd allows, two characters at least."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in folder).lstrip("_-")
    return (kept if len(kept) > 1 else f"model{kept}")[:MOST_IN_A_NAME]


def _description(folder: str) -> str:
    group = quoteattr(_group(folder))
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<package schemaVersion="1.7.7" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" xs:noNamespaceSchemaLocation="https://raw.githubusercontent.com/Open-CMSIS-Pack/Open-CMSIS-Pack-Spec/v1.7.7/schema/PACK.xsd">
  <vendor>{VENDOR}</vendor>
  <name>{NAME}</name>
  <description>{escape(f"The fixed-point model {folder}, written by kilotune")}</description>
  <url></url>
  <releases>
    <release version="{VERSION}">As exported.</release>
  </releases>
  <keywords>
    <keyword>kilotune</keyword>
    <keyword>fixed point</keyword>
  </keywords>
  <components>
    <component Cclass="Machine Learning" Cgroup={group} Cversion="{VERSION}">
      <description>Inference in integers: model.h says what it takes and returns</description>
      <files>
        <file category="header" name="model/model.h"/>
        <file category="source" name="model/model.c"/>
        <file category="source" name="check/main.c" attr="template" select="Run recorded samples" version="{VERSION}"/>
        <file category="doc" name="README.md"/>
      </files>
    </component>
  </components>
</package>
"""


def _next_step(folder: Path) -> str:
    return f"`{shlex.join(['cpackget', 'add', str(folder / f'{VENDOR}.{NAME}.pdsc')])}` makes it a pack to choose from"


TARGET = ProjectTarget(
    "cmsis-pack",
    "a software pack (Open-CMSIS-Pack) with the model as a component, for csolution projects and IDEs",
    (f"{VENDOR}.{NAME}.pdsc", "model/model.h", "model/model.c", "check/main.c", "README.md"),
    files,
    _next_step,
    MappingProxyType({"source": "model/model.c", "header": "model/model.h", "check": "check/main.c"}),
)
