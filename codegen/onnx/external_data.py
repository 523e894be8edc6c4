"""Weights that an ONNX file keeps in files beside it."""

from __future__ import annotations

import math
from pathlib import Path


def external_bytes(path: Path) -> int:
    """Bytes of all initialisers that an ONNX file keeps beside it, by what the file says of their shapes and types; none of them is read,
    or has to be there. 0 for a file that is none: who imports it says so."""
    import onnx
    from onnx import TensorProto, helper

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:  # protobuf and onnx raise what they like of a damaged file
        return 0
    total = 0
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL and tensor.data_type in helper.get_all_tensor_dtypes():
            elements = math.prod(max(0, extent) for extent in tensor.dims)
            total += elements * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return total
