"""Arrays by name as the content of an .npz file, the same bytes for the same arrays."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An .npz of these arrays, compressed."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)
    return whole.getvalue()
