# mypy: ignore-errors
"""The few calls of the PJRT C API that compile ahead of time, by ctypes.

Source: xla/pjrt/c/pjrt_c_api.h of OpenXLA. `GetPjrtApi()` returns a struct of a size, an extension pointer, a version
(size, pointer, two ints) and then function pointers, to which releases only ever append; FUNCTIONS has the places of
those that are used. Each takes one struct: its size, an extension pointer, then the fields, all of which are of 8 bytes
in the calls used here. So an argument struct is an array of 64-bit words, and its "out" fields are read from it.

Known: PJRT_Compile takes a topology in place of a client, so no device is needed, and a program in format `mlir`
(StableHLO, best as a portable artifact) or `hlo` (a serialized HloModuleProto). A module marked is_scheduled skips the
HLO passes and keeps its tiled layouts, memory spaces and window configs.
"""

from __future__ import annotations

import ctypes

WORD = ctypes.c_uint64
FUNCTIONS = {
    "PJRT_Error_Destroy": 0,
    "PJRT_Error_Message": 1,
    "PJRT_Error_GetCode": 2,
    "PJRT_Plugin_Initialize": 3,
    "PJRT_Plugin_Attributes": 4,
    "PJRT_Executable_Destroy": 40,
    "PJRT_Executable_OptimizedProgram": 48,
    "PJRT_TopologyDescription_Create": 82,
    "PJRT_Compile": 89,
}
VERSION_WORD, FIRST_FUNCTION_WORD = 4, 5
CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


INT64_LIST = 2  # PJRT_NamedValue_kInt64List


class NamedValue(ctypes.Structure):
    """PJRT_NamedValue; `value` is a pointer where the type is a string or a list."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("value", ctypes.c_void_p),
        ("value_size", ctypes.c_size_t),
    ]


class PjrtError(Exception):
    """What a call answered instead of doing it: `CODE: message`, as jaxlib spells it."""


def api_of(path: str) -> int:
    """The address of the API of a plugin's shared library. OSError where it does not load, AttributeError where it is
    no plugin.
    """
    get = ctypes.CDLL(path).GetPjrtApi
    get.restype = ctypes.c_void_p
    return get()


class Plugin:
    """An initialized plugin, whose API is at address `api`. PjrtError where it does not start."""

    def __init__(self, api: int):
        self._api = ctypes.cast(api, ctypes.POINTER(WORD))
        version = self._api[VERSION_WORD]
        self.version = (version & 0xFFFFFFFF, version >> 32)
        if self._api[0] < 8 * (FIRST_FUNCTION_WORD + 1 + max(FUNCTIONS.values())):
            raise PjrtError(f"UNIMPLEMENTED: PJRT API {self.version[0]}.{self.version[1]} has no PJRT_Compile")
        self._topologies = {}
        self._call("PJRT_Plugin_Initialize")

    def attribute(self, name: str):
        """An attribute that is a list of integers, as a tuple: `stablehlo_current_version` is (1, 13, 0)."""
        first, count = self._call("PJRT_Plugin_Attributes", 0, 0)
        values = ctypes.cast(first, ctypes.POINTER(NamedValue))
        for value in values[:count]:
            if value.type == INT64_LIST and ctypes.string_at(value.name, value.name_size).decode() == name:
                return tuple(ctypes.cast(value.value, ctypes.POINTER(ctypes.c_int64))[: value.value_size])
        return None

    def compile(self, program: bytes, form: str, options: bytes, topology: int) -> Executable:
        """program: in `form`, `mlir` or `hlo`. options: a CompileOptionsProto."""
        code, name = _buffer(program), _buffer(form.encode())
        settings = _buffer(options)
        described = _words(_address(code), len(program), _address(name), len(form))
        out = self._call("PJRT_Compile", topology, ctypes.addressof(described), _address(settings), len(options), 0, 0)
        return Executable(self, out[5])

    def topology(self, name: str) -> int:
        """A handle of the topology that libtpu calls `name`, such as `v5e:2x2`; kept as long as the plugin."""
        if name not in self._topologies:
            text = _buffer(name.encode())
            out = self._call("PJRT_TopologyDescription_Create", _address(text), len(name), 0, 0, 0)
            self._topologies[name] = out[4]
        return self._topologies[name]

    def _call(self, name: str, *fields: int) -> list:
        """The fields after the call. PjrtError if it fails."""
        error, out = self._raw(name, *fields)
        if error:
            _, message = self._raw("PJRT_Error_Message", error, 0, 0)
            _, code = self._raw("PJRT_Error_GetCode", error, 0)
            text = ctypes.string_at(message[1], message[2]).decode(errors="replace")
            self._raw("PJRT_Error_Destroy", error)
            number = code[1] & 0xFFFFFFFF
            raise PjrtError(f"{CODES[number] if number < len(CODES) else number}: {text}")
        return out

    def _raw(self, name: str, *fields: int) -> tuple:
        """(error pointer or None, the fields after the call)."""
        arguments = _words(*fields)
        pointer = self._api[FIRST_FUNCTION_WORD + FUNCTIONS[name]]
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(pointer)  # lets go of the GIL while it runs
        return function(ctypes.addressof(arguments)), list(arguments)[2:]


class Executable:
    """What was compiled; `close` frees it."""

    def __init__(self, plugin: Plugin, pointer: int):
        self._plugin, self._pointer = plugin, pointer

    def optimized(self) -> bytes:
        """The optimized program: an HloModuleProtoWithConfig (field 1 is the HloModuleProto) or an HloModuleProto."""
        program = _words(0, 0, 0, 0)  # the first call asks for the size, the second fills the buffer
        self._plugin._call("PJRT_Executable_OptimizedProgram", self._pointer, ctypes.addressof(program))
        code = ctypes.create_string_buffer(program[3])
        program[2] = _address(code)
        self._plugin._call("PJRT_Executable_OptimizedProgram", self._pointer, ctypes.addressof(program))
        return code.raw

    def close(self) -> None:
        self._plugin._call("PJRT_Executable_Destroy", self._pointer)


def _words(*fields: int):
    """An argument struct: its size in bytes, no extension, the fields."""
    return (WORD * (2 + len(fields)))(8 * (2 + len(fields)), 0, *fields)


def _buffer(data: bytes):
    return ctypes.create_string_buffer(data, len(data))


def _address(buffer) -> int:
    return ctypes.addressof(buffer)
