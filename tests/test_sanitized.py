"""What sanitizers are asked: what is no answer is no case either."""

from __future__ import annotations

from random import Random

import pytest

from tests.sanitized import kernel_cases


def test_no_smaller_program_is_looked_for_where_the_compiler_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cases, "load_kernel", lambda: None)
    with pytest.raises(RuntimeError, match="compiler"):
        kernel_cases.kernel_case(Random(1))
