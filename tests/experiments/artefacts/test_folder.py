"""Whatever a user has in a folder of artefacts is there afterwards, byte for byte."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.experiments.artefacts import whole_file
from kilotune.experiments.artefacts.folder import ArtefactFolder, RefusedOutputError
from kilotune.experiments.artefacts.manifest import MANIFEST, read_manifest
from kilotune.experiments.artefacts.whole_file import is_partial

C = {"model.c": "int model;\n", "main.c": "int main;\n", "README.md": "# A model\n"}
PROJECT = {"lib/model/model.c": "int model;\n", "src/main.cpp": "int main;\n", "README.md": "# A project\n"}


def contents(folder: Path) -> dict[str, str]:
    """Text by path, without the manifest."""
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    found.pop(MANIFEST, None)
    return found


def test_what_is_ours_is_replaced_and_removed_and_what_is_not_stays(tmp_path: Path) -> None:
    folder = tmp_path / "sketch"
    ArtefactFolder(folder, alone=True).write(C)
    (folder / ".git").mkdir()
    mine = {"thesis.tex": "years", "mycode.cpp": "int mine;", ".git/HEAD": "ref", "model.c.orig": "mine too"}
    for name, text in mine.items():
        (folder / name).write_text(text)
    ArtefactFolder(folder, alone=True).write({**C, "model.c": "int better;\n"})
    assert contents(folder) == {**C, "model.c": "int better;\n", **mine}
    ArtefactFolder(folder, alone=True).write(PROJECT)
    assert contents(folder) == {**PROJECT, **mine}
    ArtefactFolder(folder, alone=True).write(C)
    assert contents(folder) == {**C, **mine}
    assert not (folder / "lib").exists(), "folders that we made go with what was in them"


def test_an_edited_artefact_is_kept_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ArtefactFolder(tmp_path).write(C)
    for number, edited in enumerate(("int mine;\n", "int mine_again;\n"), start=1):
        (tmp_path / "model.c").write_text(edited)
        ArtefactFolder(tmp_path).write({**C, "model.c": f"int better{number};\n"})
        assert f"kept as model.c.orig{'' if number == 1 else '.2'}" in capsys.readouterr().err
    kept = {"model.c.orig": "int mine;\n", "model.c.orig.2": "int mine_again;\n"}
    assert contents(tmp_path) == {**C, "model.c": "int better2;\n", **kept}


def test_an_edited_artefact_that_is_none_any_more_stays_where_it_is(tmp_path: Path) -> None:
    ArtefactFolder(tmp_path).write(C)
    (tmp_path / "main.c").write_text("int mine;\n")
    ArtefactFolder(tmp_path).write(PROJECT)
    assert contents(tmp_path) == {**PROJECT, "main.c": "int mine;\n"}
    with pytest.raises(RefusedOutputError, match=r"main\.c is in the way"):
        ArtefactFolder(tmp_path).write(C)


def test_a_file_of_the_users_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(RefusedOutputError, match=r"README\.md is in the way, and no kilotune-manifest.json says"):
        ArtefactFolder(tmp_path).check(C)
    with pytest.raises(RefusedOutputError, match=r"README\.md is in the way"):
        ArtefactFolder(tmp_path).write(C)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_a_program_wants_a_folder_of_its_own_and_other_artefacts_do_not(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(RefusedOutputError, match=r"already holds thesis\.tex, and no kilotune-manifest.json says"):
        ArtefactFolder(tmp_path, alone=True).check(C)
    ArtefactFolder(tmp_path).write(C)
    assert contents(tmp_path) == {**C, "thesis.tex": "years"}


@pytest.mark.parametrize("alone", [True, False])
def test_a_folder_of_an_older_version_is_left_alone(alone: bool, tmp_path: Path) -> None:
    """It has decisions.json and no manifest: nobody knows what in it was edited."""
    older = {**C, "decisions.json": "{}"}
    for name, text in older.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(RefusedOutputError, match="says that kilotune wrote it"):
        ArtefactFolder(tmp_path, alone=alone).write({**C, "decisions.json": "{1}"})
    assert contents(tmp_path) == older


@pytest.mark.parametrize("name", ["model.c", MANIFEST])
@pytest.mark.parametrize("target", ["victim", "nowhere"])
@pytest.mark.parametrize("first", [True, False])
def test_a_planted_link_is_neither_followed_nor_replaced(name: str, target: str, first: bool, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    if first:
        folder.mkdir()
    else:
        ArtefactFolder(folder).write(C)
        (folder / name).unlink()
    (tmp_path / "victim").write_text("precious")
    (folder / name).symlink_to(f"../{target}")
    before = {path.name for path in folder.iterdir()}
    for attempt in (lambda: ArtefactFolder(folder).check(C), lambda: ArtefactFolder(folder).write(C)):
        with pytest.raises(RefusedOutputError, match="symbolic link"):
            attempt()
    assert (folder / name).is_symlink()
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    assert {path.name for path in folder.iterdir()} == before


def test_a_folder_inside_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "lib").symlink_to("../elsewhere")
    with pytest.raises(RefusedOutputError, match="lib is no directory of this folder's own"):
        ArtefactFolder(tmp_path / "out").write(PROJECT)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_pipe_or_a_folder_of_that_name_is_refused_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.c")
    with pytest.raises(RefusedOutputError, match="expected a file, or nothing"):
        ArtefactFolder(tmp_path).write(C)
    (tmp_path / "model.c").unlink()
    (tmp_path / "model.c").mkdir()
    with pytest.raises(RefusedOutputError, match="is a directory"):
        ArtefactFolder(tmp_path).write(C)


@pytest.mark.parametrize("how", ["itself", "hard link", "link to its folder"])
def test_an_input_is_no_place_for_an_artefact(how: str, tmp_path: Path) -> None:
    """Not even an earlier artefact, which the manifest would let it replace."""
    ArtefactFolder(tmp_path / "out").write(C)
    read = tmp_path / "out" / "model.c"
    out = tmp_path / "out"
    if how == "hard link":
        read = tmp_path / "mine.c"
        read.hardlink_to(tmp_path / "out" / "model.c")
    elif how == "link to its folder":
        out = tmp_path / "other"
        out.symlink_to("out")
    for files in ({**C, "model.c": "int better;\n"}, C):
        with pytest.raises(RefusedOutputError, match=r"model\.c.* is read by this search, and would be overwritten"):
            ArtefactFolder(out, (read,)).write(files)
    ArtefactFolder(out, (read,)).write(PROJECT)  # no artefact any more, but still the input
    assert read.read_text() == C["model.c"]
    assert contents(tmp_path / "out") == {**PROJECT, "model.c": C["model.c"]}


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2}',
        '{"schema": 1, "files": {"../victim": ["%s"]}, "folders": []}' % ("0" * 64),
        '{"schema": 1, "files": {"/victim": ["%s"]}, "folders": []}' % ("0" * 64),
        '{"schema": 1, "files": {"model.c": ["0"]}, "folders": []}',
        '{"schema": 1, "files": {}, "folders": [".."]}',
        '{"schema": 1, "files": {}, "folders": [], "partial": "../victim"}',
    ],
)
def test_a_damaged_manifest_says_so_and_nothing_is_touched(damage: str, tmp_path: Path) -> None:
    ArtefactFolder(tmp_path).write(C)
    (tmp_path / MANIFEST).write_text(damage)
    with pytest.raises(RefusedOutputError, match="is not as kilotune wrote it"):
        ArtefactFolder(tmp_path).check(PROJECT)
    assert contents(tmp_path) == C


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    """So that `make` builds nothing again."""
    ArtefactFolder(tmp_path).write(C)
    before = (tmp_path / "model.c").stat()
    ArtefactFolder(tmp_path).write({**C, "main.c": "int other;\n"})
    after = (tmp_path / "model.c").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_permissions_are_kept(tmp_path: Path) -> None:
    ArtefactFolder(tmp_path).write(C)
    (tmp_path / "model.c").chmod(0o640)
    ArtefactFolder(tmp_path).write({**C, "model.c": "int better;\n"})
    assert (tmp_path / "model.c").stat().st_mode & 0o777 == 0o640


def test_the_manifest_says_what_is_ours(tmp_path: Path) -> None:
    ArtefactFolder(tmp_path).write(PROJECT)
    told = json.loads((tmp_path / MANIFEST).read_text())
    assert told["complete"] is True
    assert told["files"] == {name: [whole_file.hash_of(text.encode())] for name, text in PROJECT.items()}
    assert sorted(told["folders"]) == ["lib", "lib/model", "src"]


@contextmanager
def somebody_else() -> Iterator[None]:
    """Permissions do not hold for root, as whom containers run tests."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_may_not_be_written_is_said_before_the_search() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # tmp_path is root's alone
        Path(made).chmod(0o755)
        closed = Path(made) / "closed"
        closed.mkdir(mode=0o555)
        (Path(made) / "hidden").mkdir(mode=0o700 if os.geteuid() == 0 else 0)
        with somebody_else():
            for folder in (closed, closed / "new", Path(made) / "hidden" / "new" / "newer"):
                with pytest.raises(RefusedOutputError, match="may not be written"):
                    ArtefactFolder(folder).check(C)
                with pytest.raises(RefusedOutputError, match="may not be written"):
                    ArtefactFolder(folder).write(C)
            with pytest.raises(PermissionError, match=r"closed/r\.html cannot be written: Permission denied\.$"):
                whole_file.write_new(closed / "r.html", b"page")
        assert not any(closed.iterdir())


def test_a_full_disk_loses_nothing_and_the_next_export_goes_on(tmp_path: Path) -> None:
    """A limit on the size of files, which says the same at the same place."""
    ArtefactFolder(tmp_path).write(C)
    (tmp_path / "thesis.tex").write_text("years")
    larger = {**C, "model.c": "int model;\n" * 10_000, "README.md": "# Another\n"}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"model\.c cannot be written: File too large\.$"):
            ArtefactFolder(tmp_path).write(larger)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(tmp_path) == {**C, "thesis.tex": "years"}
    ArtefactFolder(tmp_path).write(larger)
    assert contents(tmp_path) == {**larger, "thesis.tex": "years"}


EXPORTING = """
import sys
from pathlib import Path
from kilotune.experiments.artefacts.folder import ArtefactFolder

for number in range(10):
    text = f"int by{sys.argv[2]} = {number};"
    ArtefactFolder(Path(sys.argv[1]), alone=True).write({"model.c": text, f"by{sys.argv[2]}.c": text})
"""


def test_processes_that_share_a_study_do_not_take_each_other_for_the_user(tmp_path: Path) -> None:
    """They end at the same time, with the same folder."""
    out = tmp_path / "out"
    children = [subprocess.Popen([sys.executable, "-c", EXPORTING, str(out), str(number)]) for number in range(3)]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    found = contents(out)
    assert len(found) == 2
    assert set(found.values()) in [{f"int by{number} = 9;"} for number in range(3)]


NAMES = st.sampled_from(
    [*C, *PROJECT, "model.c.orig", "model.c.orig.2", "thesis.tex", "lib/mine.c", "src/model.c", "lib", "src", MANIFEST]
)
TEXTS = st.sampled_from(["", "mine\n", *C.values(), *PROJECT.values(), "int model = 2;\n"])
EXPORTS = st.sampled_from(
    [C, PROJECT, {**C, "model.c": "int model = 2;\n"}, {"model.c": "int model;\n"}, {"src/model.c": "int src;\n"}, {}]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("export"), EXPORTS, st.booleans()),
        st.tuples(st.just("save"), NAMES, TEXTS),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("link"), NAMES, st.none()),
    ),
    max_size=10,
)


def save(folder: Path, name: str, text: str) -> None:
    """What a user does, as far as the system lets them."""
    path = folder / name
    if path.is_dir() or not all(parent.is_dir() or not parent.exists() for parent in path.parents) or path.is_symlink():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def can_link(path: Path) -> bool:
    return path.parent.is_dir() and not path.exists() and not path.is_symlink()


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=150)
def test_nothing_of_the_users_is_lost_whatever_happens(steps: list[tuple[str, object, object]]) -> None:
    """A text that a user saved under some name is afterwards there, or, if the name was an artefact's, beside it."""
    with tempfile.TemporaryDirectory() as made:
        folder, outside = Path(made) / "out", Path(made) / "outside"
        outside.write_text("precious")
        mine: dict[str, str] = {}  # what the user saved, and has not deleted, by name
        links: set[str] = set()
        for what, given_, more in steps:
            if what == "export":
                assert isinstance(given_, Mapping)
                export(folder, given_, bool(more), mine)
            elif what == "save":
                save(folder, str(given_), str(more))
                if (folder / str(given_)).is_file() and not (folder / str(given_)).is_symlink():
                    mine[str(given_)] = str(more)
            elif what == "delete" and (folder / str(given_)).is_file():
                (folder / str(given_)).unlink()
                mine.pop(str(given_), None)
                links.discard(str(given_))
            elif what == "link" and can_link(folder / str(given_)):
                (folder / str(given_)).symlink_to(outside)
                links.add(str(given_))
            assert outside.read_text() == "precious"
            assert all((folder / name).is_symlink() for name in links)


def export(folder: Path, files: Mapping[str, str], alone: bool, mine: dict[str, str]) -> None:
    """Export, and see that all of `mine` is still there; what was kept beside goes on as the user's under that name."""
    before = contents(folder) if folder.is_dir() else {}
    links = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_symlink()} if folder.is_dir() else set()
    try:
        manifest = read_manifest(folder)
    except ValueError:
        manifest = None
    ours = {} if manifest is None else manifest.files
    try:
        ArtefactFolder(folder, alone=alone).write(files)
    except RefusedOutputError:
        assert (contents(folder) if folder.is_dir() else {}) == before, "what is refused changes nothing"
        return
    after = contents(folder)
    assert {name: after[name] for name in files} == dict(files)
    for name, text in list(mine.items()):
        if name == MANIFEST or after.get(name) == text:
            continue
        assert name in ours, f"{name} was never an artefact"
        if whole_file.hash_of(text.encode()) in ours[name]:
            del mine[name]  # saved as kilotune had written it: nothing of the user's is in it
            continue
        kept = [other for other in after if other.startswith(f"{name}.orig") and after[other] == text]
        assert kept, f"{name} is gone"
        del mine[name]
        mine[kept[-1]] = text
    assert not any(is_partial(path.name) for path in folder.rglob("*"))
    assert not links & set(files)
