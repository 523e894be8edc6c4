"""Kernels of many digits and networks of many cores: small budgets are kept, and end with something no worse than the paper's.

Seconds are CPU seconds of this process, so that a busy machine changes little; what is waited for, a solver or compiled code,
counts in them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kilotune.evaluators.cm import timing
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Space
from kilotune.search.study import Study
from tests.experiments.budgets.hard_inputs import write_dense_network

pytestmark = pytest.mark.slow

PROMISED_S = 1.0
ALLOWED_S = 4 * PROMISED_S
"""A busy machine makes CPU seconds longer too: neighbours share the core and its caches. On one of them a budget of 0.2 s took 2.203."""
KERNELS = {
    "ninth": ([["1/9"] * 3] * 3, 24),
    "large": ([[f"{(37 * x * x + 11 * x * y + 53 * y) % 255 - 127}/128" for x in range(7)] for y in range(7)], 8),
    "plain": ([[1, 0, -1], [2, 0, -2], [1, 0, -1]], None),
}
LARGE_MESH = {
    "name": "mesh-24x24",
    "topology": {"kind": "mesh", "rows": 24, "columns": 24},
    "link": {"elements_per_tick": 64, "hop_ticks": 1},
    "crossbar": {"rows": 128, "columns": 128, "per_core": 1},
    "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 4096},
    "gmem": {
        "input_ports": [0, 23],
        "output_ports": [552, 575],
        "elements_per_tick": 64,
        "hop_ticks": 1,
        "order": "row-major",
    },
    "element_bytes": 1,
}
SPLITTERS = ("exhaustive", "random", "local", "tpe", "greedy", "cp")
MAPPERS = ("anneal", "exhaustive", "random", "local", "tpe", "greedy", "cp")


def kernel_space(folder: Path, name: str, strategy: str) -> Space:
    rows, depth = KERNELS[name]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"kernels": [rows]}))
    options = {} if depth is None else {"depth": depth}
    return build_problem(request_from("reverse-split", input=str(path), strategy=strategy, options=options)).space


def searched(space: Space, strategy: str, budget_s: float) -> tuple[Study, float]:
    study = Study(space, strategy, clock=time.process_time, procedure_first=True)
    begun_s = time.process_time()
    study.run(InProcessExecutor(space), Budget(seconds=budget_s))
    return study, time.process_time() - begun_s


@pytest.mark.parametrize("strategy", SPLITTERS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_keep_small_budgets_and_are_never_worse_than_the_paper_s(
    tmp_path: Path, name: str, strategy: str
) -> None:
    for budget_s in (0.2, 0.8):
        study, used_s = searched(kernel_space(tmp_path, name, strategy), strategy, budget_s)
        assert used_s < budget_s + ALLOWED_S
        if study.procedure is not None and study.procedure.metrics:
            assert study.front.best is not None
            assert study.front.best.metrics["instructions"] <= study.procedure.metrics["instructions"]


@pytest.mark.parametrize("strategy", MAPPERS)
def test_networks_keep_small_budgets_and_are_never_worse_than_the_paper_s(strategy: str) -> None:
    answer = None
    for network, hardware, budget_s in (
        ("googlenet", "mesh-16x16", 0.5),
        ("resnet20", "mesh-8x8", 0.2),
        ("resnet20", "mesh-8x8", 0.8),
    ):
        request = request_from("cm", input=network, strategy=strategy, options={"hardware": hardware})
        space = build_problem(request).space
        study, used_s = searched(space, strategy, budget_s)
        assert used_s < budget_s + ALLOWED_S
        if study.procedure is not None:
            answer = answer or run_procedure(space)
            assert answer is not None
            assert study.front.best is not None
            assert study.front.best.metrics["ticks_per_image"] <= answer.metrics["ticks_per_image"]


def test_a_network_gets_a_mapping_within_its_budget_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 s ended with nothing: a candidate of ResNet-20 took 4.3 s in Python. The loop takes 0.2 s on such a machine, and here 16 times as
    much brings a mapping; a second search is for machines that others share."""
    monkeypatch.setattr(timing, "load_timing", lambda: None)
    found = []
    for _ in range(2):
        begun = time.process_time()
        assert sum(number * number % 7 for number in range(3_000_000)) > 0
        budget_s = 22 * (time.process_time() - begun)
        space = build_problem(request_from("cm", input="resnet20")).space
        found.append(searched(space, "anneal", budget_s)[0].front.best)
        if found[-1] is not None:
            return
    assert any(found)


def test_a_kernel_that_got_no_program_is_no_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 4 and `Trial 0 has no program` came after the search."""
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    path = tmp_path / "two.json"
    rows = [[(7 * x + 3 * y) % 11 - 5 for x in range(4)] for y in range(4)]
    path.write_text(json.dumps({"kernels": [rows], "registers": 2}))
    arguments = ["--space", "reverse-split", "--strategy", "random", "--input", str(path), "--budget", "1s"]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--output", str(tmp_path / "out")])
    assert end.value.code in (ExitStatus.FEASIBLE, ExitStatus.INFEASIBLE), capsys.readouterr().err


def test_a_network_of_hundreds_of_stages_gets_a_mapping_within_its_budget(tmp_path: Path) -> None:
    """5 s ended after 32 CPU-s and with nothing, on a network like DenseNet-121. The reading of the input is in the budget."""
    budget_s = 5.0
    hardware = tmp_path / "large.json"
    hardware.write_text(json.dumps(LARGE_MESH))
    network = write_dense_network(tmp_path / "dense.onnx")
    begun_s = time.process_time()
    space = build_problem(request_from("cm", input=str(network), options={"hardware": str(hardware)})).space
    left_s = budget_s - (time.process_time() - begun_s)
    study, _ = searched(space, "anneal", left_s)
    assert time.process_time() - begun_s < budget_s + ALLOWED_S
    assert study.front.best is not None
