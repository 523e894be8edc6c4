"""hls4ml's network beside ours, as far as it goes without a vendor's tool.

    python -m venv peer && peer/bin/pip install hls4ml==1.3.0
    python -m kilotune.experiments.benchmarks.hardware_hls4ml peer/bin/python

mlp-diabetes, with the float parameters. hls4ml writes C++ for a vendor's high-level synthesis, and compiles the same C++ for a bit-accurate
simulation, whose R squared on the test samples is here. Gates, cycles and clock are Vitis' (or another vendor's), which this does not run.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.experiments.benchmarks.hardware import answer
from kilotune.experiments.benchmarks.hardware_peer import explained

PEER = """
import sys
import numpy as np
from hls4ml.model import ModelGraph
given = {name: np.load(name + ".npy").astype(np.float32) for name in ("X", "W1", "B1", "W2", "B2")}
dense = dict(class_name="Dense", weight_quantizer=None, bias_quantizer=None, data_format="channels_last")
layers = [
    dict(class_name="InputLayer", name="x", input_shape=[10], data_format="channels_last"),
    dict(dense, name="fc1", n_in=10, n_out=6, weight_data=given["W1"].T.copy(), bias_data=given["B1"].reshape(-1), inputs=["x"]),
    dict(class_name="Activation", name="th", activation="tanh", n_in=6, inputs=["fc1"]),
    dict(dense, name="fc2", n_in=6, n_out=1, weight_data=given["W2"].T.copy(), bias_data=given["B2"].reshape(-1), inputs=["th"]),
]
parameter = {"weight": "ap_fixed<8,1>", "bias": "ap_fixed<8,1>", "accum": "ap_fixed<24,8>"}
ours = {
    "x": {"Precision": {"result": "ap_fixed<8,4>"}},
    "fc1": {"Precision": {**parameter, "result": "ap_fixed<8,3,AP_TRN,AP_SAT>"}},
    "th": {"Precision": {"result": "ap_fixed<8,2>", "table": "ap_fixed<8,2>"}},
    "fc2": {"Precision": {**parameter, "result": "ap_fixed<16,6>"}},
}
for number, (width, layer) in enumerate((("16,6", {}), ("8,4", {}), ("16,6", ours))):
    formats = {"Model": {"Precision": f"ap_fixed<{width}>", "ReuseFactor": 1, "Strategy": "Latency"}, "LayerName": layer}
    made = ModelGraph.from_layer_list({
        "OutputDir": f"written{number}", "ProjectName": "mlp", "Backend": "Vitis", "Part": "xc7a35tcsg324-1", "ClockPeriod": 10,
        "IOType": "io_parallel", "HLSConfig": formats, "Version": "1.0.0",
    }, [dict(layer) for layer in layers])
    made.compile()
    np.save(f"outputs{number}", made.predict(np.ascontiguousarray(given["X"])).reshape(-1))
"""

FORMATS = (
    "16 bits, 6 of them before the point",
    "8 bits, 4 of them before the point",
    "8 bits, the point where ours is",
)


def peer(python: str) -> None:
    """A line of ours, and one of the peer's with each format."""
    bundle, batch = answer("mlp-diabetes", "shiftry")
    assert bundle.test is not None
    features, targets = bundle.test.features, np.asarray(bundle.test.targets, dtype=np.float64)
    column = [variable.name for variable in bundle.program.variables].index(bundle.program.result.variable)
    integers = Simulator(bundle.program, bundle.parameters, features).run(batch)[0].reshape(-1)
    outputs: FloatArray = integers * 2.0 ** -int(batch.scales[0, column])
    print("| | R squared |\n|---|---|")
    print(f"| ours, shiftry's 8 bits | {explained(outputs, targets):.4f} |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, values in (("X", features), *bundle.parameters.items()):
            np.save(folder / name, values)
        subprocess.run([python, "-c", PEER], cwd=folder, capture_output=True, check=True)
        for number, formats in enumerate(FORMATS):
            found = np.load(folder / f"outputs{number}.npy").astype(np.float64)
            print(f"| hls4ml, {formats} | {explained(found, targets):.4f} |")


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="hls4ml's network beside ours.")
    arguments.add_argument("python", help="a Python that has hls4ml")
    peer(arguments.parse_args().python)


if __name__ == "__main__":
    main()
