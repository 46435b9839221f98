"""Frames and arrays. The host imports this too, so it needs nothing but the standard library until an array comes.

A frame is an 8-byte little-endian length, that many bytes of JSON, then the binary blobs whose sizes the JSON gives.
An array is its dtype as XLA spells it, its shape, and a blob in C order with one byte an element below 8 bits.
"""

from __future__ import annotations

import json
import platform
import socket
import struct
from typing import Any


class Refused(Exception):
    """A request that cannot be done, with a type name that says why."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


# numpy's name -> XLA's name, where they differ by more than the obvious
DTYPE_NAMES = {
    "bool": "pred", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
    "float16": "f16", "float32": "f32", "float64": "f64",
    "float8_e3m4": "f8e3m4", "float8_e4m3": "f8e4m3", "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e4m3b11": "f8e4m3b11fnuz", "float8_e4m3b11fnuz": "f8e4m3b11fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn": "f4e2m1fn",
    **{f"int{n}": f"s{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
}  # fmt: skip
NUMPY_NAMES = {xla: name for name, xla in DTYPE_NAMES.items()}


def numpy_dtype(name: str) -> Any:
    """The NumPy dtype that XLA spells `name`; TypeError if this Python has none."""
    import numpy as np

    known = NUMPY_NAMES.get(name)
    if known is not None and known in np.sctypeDict:
        return np.dtype(known)
    import ml_dtypes

    if known is None or not hasattr(ml_dtypes, known):
        raise TypeError(f"dtype {name} has no NumPy counterpart in Python {platform.python_version()}")
    return np.dtype(getattr(ml_dtypes, known))


def xla_dtype(dtype: Any) -> str:
    """XLA's name for a NumPy dtype; TypeError if XLA has none."""
    name = str(dtype)
    if name not in DTYPE_NAMES:
        raise TypeError(f"dtype {name} is not one of XLA's")
    return DTYPE_NAMES[name]


def put_array(array: Any, blobs: list[Any]) -> dict[str, Any]:
    """Append the array's bytes (C order, one byte an element below 8 bits) to `blobs`; its description is returned."""
    import numpy as np

    array = np.asarray(array)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    blobs.append(memoryview(flat))
    return {"dtype": xla_dtype(array.dtype), "shape": list(array.shape), "blob": len(blobs) - 1}


def get_array(spec: dict[str, Any], blobs: list[Any]) -> Any:
    """The array that `put_array` described; shares memory with its blob."""
    import numpy as np

    return np.frombuffer(blobs[spec["blob"]], dtype=numpy_dtype(spec["dtype"])).reshape(spec["shape"])


def frame(header: dict[str, Any], blobs: list[Any]) -> list[Any]:
    """The pieces to write, in order, for one frame."""
    header = dict(header, blobs=[len(b) for b in blobs])
    text = json.dumps(header).encode()
    return [struct.pack("<Q", len(text)) + text, *blobs]


def read_exactly(channel: socket.socket, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        n = channel.recv_into(view[got:], min(size - got, 1 << 26))
        if n == 0:
            return None
        got += n
    return buffer


def read_frame(channel: socket.socket) -> tuple[dict[str, Any], list[bytearray]] | None:
    """(header, blobs), or None when the other side is gone."""
    prefix = read_exactly(channel, 8)
    text = prefix and read_exactly(channel, struct.unpack("<Q", prefix)[0])
    if not text:
        return None
    header = json.loads(bytes(text))
    blobs = []
    for size in header["blobs"]:
        blob = read_exactly(channel, size)
        if blob is None:
            return None
        blobs.append(blob)
    return header, blobs
