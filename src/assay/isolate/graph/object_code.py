"""The functions of an object file (ELF, 64 bits), each as a digest of what it does and not of what it is called.

Of a function: its bytes, and for each relocation in them what it refers to: a name from outside, another function, or
data, which counts in full. Names of functions that the file defines and its file symbol do not count. Source: System V
ABI, "Object Files"; `Elf64_Ehdr`, `Elf64_Shdr`, `Elf64_Sym`, `Elf64_Rela`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_FUNC = 2


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    link: int
    info: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    section: int
    value: int
    size: int


def is_elf(data: bytes) -> bool:
    """Whether it is ELF, of 64 bits, little-endian."""
    return data[:6] == b"\x7fELF\x02\x01"


def functions(data: bytes) -> dict[str, str]:
    """The digest of each function, by name. `data` has to be ELF."""
    sections = _sections(data)
    symbols = [symbol for section in sections if section.kind == _SYMTAB for symbol in _symbols(sections, section)]
    relocations: dict[int, list[tuple[int, int, int, int]]] = {}
    for section in sections:
        if section.kind == _RELA:
            relocations.setdefault(section.info, []).extend(
                (offset, info & 0xFFFFFFFF, info >> 32, addend)
                for offset, info, addend in struct.iter_unpack("<QQq", section.data)
            )
    found = [s for s in symbols if s.kind == _FUNC and s.section]
    return {symbol.name: _digest(symbol, sections, symbols, relocations, ()) for symbol in found}


def _digest(
    function: _Symbol,
    sections: list[_Section],
    symbols: list[_Symbol],
    relocations: Mapping[int, list[tuple[int, int, int, int]]],
    outer: tuple[str, ...],
) -> str:
    digest = blake2b(digest_size=16)
    end = function.value + function.size
    digest.update(sections[function.section].data[function.value : end])
    for offset, kind, index, addend in sorted(relocations.get(function.section, ())):
        if not function.value <= offset < end:
            continue
        target = symbols[index]
        digest.update(struct.pack("<QQq", offset - function.value, kind, addend))
        if target.section == 0:
            digest.update(target.name.encode())
        elif target.kind == _FUNC:
            inner = (*outer, function.name)
            back = target.name in inner
            told = str(inner.index(target.name)) if back else _digest(target, sections, symbols, relocations, inner)
            digest.update(told.encode())
        else:
            digest.update(struct.pack("<Q", target.value))
            if target.section < len(sections):
                digest.update(sections[target.section].data)
    return digest.hexdigest()


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    found = []
    for i in range(count):
        _, kind, _, _, offset, length, link, info, _, _ = struct.unpack_from("<IIQQQQIIQQ", data, start + i * size)
        found.append(_Section(kind, link, info, b"" if kind == _NOBITS else data[offset : offset + length]))
    return found


def _symbols(sections: list[_Section], table: _Section) -> list[_Symbol]:
    names = sections[table.link].data
    found = []
    for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", table.data):
        end = names.index(b"\0", name)
        found.append(_Symbol(names[name:end].decode(), info & 15, section, value, size))
    return found
