"""What a pipe gets while something runs."""

from __future__ import annotations

import pytest

from kilotune.experiments.terminal.live_display import LiveDisplay


def test_a_pipe_gets_a_line_now_and_then_and_no_text_is_made_in_between(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kilotune.experiments.terminal.live_display.PLAIN_LINE_EVERY_S", 3600.0)
    made: list[str] = []

    def text(words: str) -> str:
        made.append(words)
        return words

    with LiveDisplay(quiet=False) as display:
        assert not display.is_redrawn
        display.line_if_due(lambda: text("too early"))
        monkeypatch.setattr(display, "_next_line_s", 0.0)
        display.line_if_due(lambda: text("[bold]first[/bold]"))
        display.line_if_due(lambda: text("too early again"))
        display.draw("never drawn on a pipe")
        display.line("at once")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "[bold]first[/bold]\nat once\n"
    assert made == ["[bold]first[/bold]"]


def test_quiet_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveDisplay(quiet=True, view="drawn") as display:
        display.line("a line")
    assert capsys.readouterr() == ("", "")
