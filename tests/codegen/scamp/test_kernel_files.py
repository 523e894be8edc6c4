"""Kernels from JSON: what is read, and one sentence for everything that is not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.kernel_files import parse_kernel_file


def test_a_whole_file() -> None:
    text = '{"kernels": [[[0.1, "1/9"], [-2, 0]], [[1]]], "depth": 4, "registers": 5, "target": "scamp5"}'
    read = parse_kernel_file(text, "k.json")
    assert dict(read.kernels.kernels[0].weights) == {
        (0, 1): Fraction(1, 10),  # as written, not the nearest double
        (1, 1): Fraction(1, 9),
        (0, 0): -2,
    }
    assert (len(read.kernels.kernels), read.depth, read.registers, read.target) == (2, 4, 5, "scamp5")
    assert parse_kernel_file('{"kernels": [[[1]]]}', "k.json").depth is None


def test_kernels_without_a_name() -> None:
    """A kernel alone, a list of kernels, and weights in quotes mean what they mean in a whole file."""
    roberts = parse_kernel_file('{"kernels": [[[1, 0], [0, -1]]]}', "k.json")
    assert parse_kernel_file("[[1, 0], [0, -1]]", "k.json") == roberts
    assert parse_kernel_file("[[[1, 0], [0, -1]]]", "k.json") == roberts
    assert parse_kernel_file('[["1", "0"], [0, " -1 "]]', "k.json") == roberts
    assert len(parse_kernel_file("[[[1]], [[2]]]", "k.json").kernels.kernels) == 2
    assert parse_kernel_file('"-1/3"', "k.json") == parse_kernel_file('[["-1/3"]]', "k.json")
    quoted = parse_kernel_file('[["0.25", "-1/3"]]', "k.json").kernels.kernels[0]
    assert sorted(weight for _, weight in quoted.weights) == [Fraction(-1, 3), Fraction(1, 4)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "k.json:1:1: expected JSON, found the end of the file"),
        ('{"kernels": [[[1, 2]]', "k.json:1:22: expected JSON, found '{\"kernels\": [[[1, 2]]'"),
        (
            '{"kernel": 1}',
            "k.json: expected an object {\"kernels\": [...]}, a list of rows or a weight in quotes, found {'kernel': 1}",
        ),
        ("null", 'k.json: expected an object {"kernels": [...]}, a list of rows or a weight in quotes, found null'),
        ('"x"', "k.json: kernel 1, row 1, column 1: expected a finite number or a fraction such as \"1/9\", found 'x'"),
        ("[null, [false, 0.5]]", "k.json: kernel 1, row 1: expected a list of at least one weight, found null"),
        (
            '{"kernels": {"a": [null, 0.5]}}',
            "k.json: kernels: expected a list of at least one kernel, found {'a': [null, 0.5]}",
        ),
        ("[[1], 2]", "k.json: kernel 1, row 2: expected a list of at least one weight, found 2"),
        ("[]", "k.json: kernels: expected a list of at least one kernel, found []"),
        (
            '[["1 /"]]',
            "k.json: kernel 1, row 1, column 1: expected a finite number or a fraction such as \"1/9\", found '1 /'",
        ),
        ('{"kernels": []}', "k.json: kernels: expected a list of at least one kernel, found []"),
        ('{"kernels": [[]]}', "k.json: kernel 1: expected a list of rows with at least one weight, found []"),
        ('{"kernels": [[[]]]}', "k.json: kernel 1, row 1: expected a list of at least one weight, found []"),
        ('{"kernels": [[[1]], [[1, 2], [3]]]}', "k.json: kernel 2, row 2: expected 2 weights as in row 1, found 1"),
        (
            '{"kernels": [[[1, "x"]]]}',
            "k.json: kernel 1, row 1, column 2: expected a finite number or a fraction such as \"1/9\", found 'x'",
        ),
        (
            '{"kernels": [[[NaN]]]}',
            'k.json: kernel 1, row 1, column 1: expected a finite number or a fraction such as "1/9", found NaN',
        ),
        (
            '{"kernels": [[[-Infinity]]]}',
            'k.json: kernel 1, row 1, column 1: expected a finite number or a fraction such as "1/9", found -Infinity',
        ),
        (
            '{"kernels": [[[true]]]}',
            'k.json: kernel 1, row 1, column 1: expected a finite number or a fraction such as "1/9", found true',
        ),
        (
            '{"kernels": [[["1/0"]]]}',
            "k.json: kernel 1, row 1, column 1: expected a finite number or a fraction such as \"1/9\", found '1/0'",
        ),
        (
            '{"kernels": [[[1e9]]]}',
            "k.json: kernel 1, row 1, column 1: expected a weight of at most 1048576, found 1e+09",
        ),
        ('{"kernels": [[[1]]], "depth": -1}', "k.json: depth: expected an integer from 0 to 24, found -1"),
        ('{"kernels": [[[1]]], "registers": 0}', "k.json: registers: expected an integer from 1 to 6, found 0"),
        ('{"kernels": [[[1]]], "registers": 2.5}', "k.json: registers: expected an integer from 1 to 6, found 2.5"),
        ('{"kernels": [[[1]]], "target": "cain"}', "k.json: target: expected auke or scamp5, found 'cain'"),
        (
            '{"kernels": [[[1]]], "kernel": 1}',
            "k.json: key 'kernel': expected one of kernels, depth, registers, target, network, found 'kernel'",
        ),
    ],
)
def test_what_is_wrong_is_said(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        parse_kernel_file(text, "k.json")
    assert str(error.value) == sentence
