"""The binding of PJRT's C API, against an API that is made here, so that no plugin is needed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.toolchain.worker.pjrt import FUNCTIONS, NamedValue, PjrtError, Plugin, api_of

Words = Any  # a pointer to 64-bit words
CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
HEADER = 5  # words before the first function: size, extension, and a version of three


class Api:
    """A PJRT_Api in memory whose functions are Python's; `seen` has the name and the fields of each call."""

    def __init__(self, minor: int = 117, count: int = 100, **functions: Callable[[Words], int]) -> None:
        self.seen: list[tuple[str, list[int]]] = []
        self.words = (ctypes.c_uint64 * (HEADER + count))(8 * (HEADER + count), 0, 24, 0, minor << 32)
        self.kept = []
        for name, place in FUNCTIONS.items():
            if place < count:
                self.kept.append(CALL(self._call(name, functions.get(name, lambda fields: 0))))
                self.words[HEADER + place] = ctypes.cast(self.kept[-1], ctypes.c_void_p).value or 0

    def _call(self, name: str, function: Callable[[Words], int]) -> Callable[[int], int]:
        def called(address: int) -> int:
            fields = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint64))
            count = fields[0] // 8 - 2
            self.seen.append((name, list(fields[2 : 2 + count])))
            return function(ctypes.cast(address + 16, ctypes.POINTER(ctypes.c_uint64)))

        return called

    @property
    def address(self) -> int:
        return ctypes.addressof(self.words)

    def names(self) -> list[str]:
        return [name for name, _ in self.seen]


def text_at(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def test_the_version_is_read_and_the_plugin_initialized() -> None:
    api = Api(minor=91)
    assert Plugin(api.address).version == (0, 91)
    assert api.names() == ["PJRT_Plugin_Initialize"]


def test_an_api_too_old_to_compile_for_a_topology_is_refused() -> None:
    with pytest.raises(PjrtError, match=r"UNIMPLEMENTED: PJRT API 0\.12 has no PJRT_Compile"):
        Plugin(Api(minor=12, count=80).address)


def test_a_topology_is_made_once() -> None:
    def create(fields: Words) -> int:
        assert text_at(fields[0], fields[1]) == b"v5e:2x2"
        fields[4] = 0xBEEF
        return 0

    api = Api(PJRT_TopologyDescription_Create=create)
    plugin = Plugin(api.address)
    assert [plugin.topology("v5e:2x2") for _ in range(3)] == [0xBEEF] * 3
    assert api.names().count("PJRT_TopologyDescription_Create") == 1


def test_a_program_goes_in_whole_and_the_optimized_one_comes_out_whole() -> None:
    program, options, made = b"\x0a\x00program\x00", b"\x1a\x00", b"\x0a\x03opt\x00imized"

    def compile_(fields: Words) -> int:
        described = ctypes.cast(fields[1], ctypes.POINTER(ctypes.c_uint64))
        assert fields[0] == 7
        assert described[0] == 48
        assert text_at(described[2], described[3]) == program
        assert text_at(described[4], described[5]) == b"hlo"
        assert text_at(fields[2], fields[3]) == options
        assert fields[4] == 0  # no client
        fields[5] = 0xE
        return 0

    def optimized(fields: Words) -> int:
        wanted = ctypes.cast(fields[1], ctypes.POINTER(ctypes.c_uint64))
        assert fields[0] == 0xE
        wanted[3] = len(made)
        if wanted[2]:
            ctypes.memmove(wanted[2], made, len(made))
        return 0

    api = Api(PJRT_Compile=compile_, PJRT_Executable_OptimizedProgram=optimized)
    executable = Plugin(api.address).compile(program, "hlo", options, 7)
    assert executable.optimized() == made
    executable.close()
    assert api.seen[-1] == ("PJRT_Executable_Destroy", [0xE])


def test_an_error_has_its_code_and_message_and_is_freed() -> None:
    message = ctypes.create_string_buffer(b"no such thing, \xe2\x82\xac")

    def tell(fields: Words) -> int:
        fields[1], fields[2] = ctypes.addressof(message), len(message.value)
        return 0

    def code(fields: Words) -> int:
        fields[1] = 3 | 0xABCD << 32  # an int: what stands in the upper half is padding
        return 0

    api = Api(PJRT_Compile=lambda _: 0xBAD, PJRT_Error_Message=tell, PJRT_Error_GetCode=code)
    plugin = Plugin(api.address)
    with pytest.raises(PjrtError, match=r"^INVALID_ARGUMENT: no such thing, €$"):
        plugin.compile(b"", "mlir", b"", 0)
    assert api.seen[-1] == ("PJRT_Error_Destroy", [0xBAD])


def test_an_attribute_is_found_by_name() -> None:
    version, names = (ctypes.c_int64 * 3)(1, 13, 7), [b"xla_version", b"stablehlo_current_version"]
    kept = [ctypes.create_string_buffer(name) for name in names]
    values = (NamedValue * 2)()
    values[0] = NamedValue(56, None, ctypes.addressof(kept[0]), len(names[0]), 1, 2, 1)  # an int64
    values[1] = NamedValue(56, None, ctypes.addressof(kept[1]), len(names[1]), 2, ctypes.addressof(version), 3)

    def attributes(fields: Words) -> int:
        fields[0], fields[1] = ctypes.addressof(values), 2
        return 0

    plugin = Plugin(Api(PJRT_Plugin_Attributes=attributes).address)
    assert plugin.attribute("stablehlo_current_version") == (1, 13, 7)
    assert plugin.attribute("xla_version") is None  # no list
    assert plugin.attribute("nothing") is None


def test_what_is_no_plugin_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "libtpu.so").write_text("no shared library")
    with pytest.raises(OSError, match=r"libtpu\.so"):
        api_of(str(tmp_path / "libtpu.so"))
    if sys.platform == "linux":
        with pytest.raises(AttributeError, match="GetPjrtApi"):
            api_of("libc.so.6")
