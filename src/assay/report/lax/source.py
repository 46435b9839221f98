"""The walk: each computation a function, each instruction an expression, inlined where it is short and used once.

Instructions that the root does not need are left out, as XLA does first of all. What jax.lax has no form for raises
Unsupported; the tables in `ops` and `calls` say what there is.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assay.errors import Unsupported
from assay.hlo.graph import live, post_order, users
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, TupleShape
from assay.report.lax.values import array_text, dims_text, dtype_text, number_text
from assay.report.wrap import wrapped

Form = Callable[["Writer", Computation, Instruction, "list[str]"], str]
"""What an instruction is in Python: its writer, its computation, itself, and its operands' expressions."""


def enter(table: dict[str, Form], opcode: str) -> Callable[[Form], Form]:
    """A decorator: the form of an opcode."""

    def add(function: Form) -> Form:
        table[opcode] = function
        return function

    return add


INLINE = 56
"""Characters up to which an expression that is used once stands in its user."""

ALIASES = frozenset(("copy", "domain"))
SHARDING_CALLS = ("Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.")
TAKEN = frozenset(
    ("jax", "jnp", "np", "lax", "pytest", "os", "re", "sys", "base64", "zlib", "unpack", "program", "complex", "float")
)


def lax_source(module: Module, name: str = "program", inline: int = INLINE) -> str:
    """The module's entry as a Python function `name` of flat arrays, over `jax`, `jnp`, `lax` and `np`, to be called
    under jit, and before it the functions that it calls. It gives what the entry gives, a tuple for a tuple. inline:
    the longest expression that stands in its user. Raises Unsupported.
    """
    from assay.report.lax.table import FORMS

    if module.scheduled:
        raise Unsupported("a module that is optimized already", "jax.lax would be optimized again")
    writer = Writer(module, FORMS, inline)
    writer.define(module.entry, name)
    return "\n\n\n".join(writer.functions) + "\n"


@dataclass(slots=True)
class Writer:
    """functions: finished ones, callees first. names: of computations that have one. taken: by functions; inside: by
    variables, whose names no function may have, lest one hide it.
    """

    module: Module
    forms: Mapping[str, Form]
    inline: int
    functions: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    inside: set[str] = field(default_factory=set)

    def function(self, computation_name: str) -> str:
        """The Python name of a computation, which is written if it was not yet."""
        if computation_name not in self.names:
            computation = self.module.by_name[computation_name]
            self.define(computation, identifier(computation.name, self.taken | self.inside | TAKEN))
        return self.names[computation_name]

    def define(self, computation: Computation, name: str) -> None:
        self.names[computation.name] = name
        self.taken.add(name)
        body = _Body(self, computation)
        text = body.text(name)
        self.functions.append(text)


@dataclass(slots=True)
class _Body:
    """known: the expression of each value. parts: of a value that is a Python tuple, its elements' expressions."""

    writer: Writer
    computation: Computation
    known: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def text(self, name: str) -> str:
        computation = self.computation
        parameters = [self._parameter(p) for p in computation.parameters]
        needed = live(computation)
        uses = {name: sum(user in needed for user in used) for name, used in users(computation).items()}
        for instruction in post_order(computation):
            if instruction.name in needed and instruction.parameter_number is None:
                self._instruction(instruction, uses[instruction.name])
        result = self.known[computation.root_name]
        if isinstance(computation.root.shape, TupleShape) and not computation.root.shape.elements:
            raise Unsupported("a program without results")
        head = f"def {name}({', '.join(parameters)}):"
        return "\n".join([head, *self.lines, *wrapped(f"    return {result}")])

    def _parameter(self, parameter: Instruction) -> str:
        """Its name; a tuple of the entry is taken flat, one of another computation as a tuple."""
        entry = self.computation.name == self.writer.module.entry_name
        if entry and isinstance(parameter.shape, TupleShape):
            return self._flat(parameter)
        if not entry or isinstance(parameter.shape, ArrayShape):
            name = self.name(parameter.name)
            self.known[parameter.name] = name
            return name
        raise Unsupported("a parameter that is no array", parameter.name)

    def _flat(self, parameter: Instruction) -> str:
        assert isinstance(parameter.shape, TupleShape)
        if any(not isinstance(shape, ArrayShape) for shape in parameter.shape.elements):
            raise Unsupported("a nested tuple as a parameter", parameter.name)
        names = [self.name(f"{parameter.name}_{k}") for k in range(len(parameter.shape.elements))]
        self._tuple(parameter.name, names)
        return ", ".join(names)

    def _tuple(self, name: str, parts: list[str]) -> None:
        self.parts[name] = parts
        self.known[name] = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def name(self, wanted: str) -> str:
        found = identifier(wanted, TAKEN | self.taken | self.writer.taken)
        self.taken.add(found)
        self.writer.inside.add(found)
        return found

    def _instruction(self, instruction: Instruction, uses: int) -> None:
        operands = [self.known[name] for name in instruction.operands]
        if instruction.opcode == "tuple":
            self._tuple(instruction.name, operands)
        elif instruction.opcode == "get-tuple-element":
            index = int(instruction.attributes["index"])
            parts = self.parts.get(instruction.operands[0])
            text = parts[index] if parts is not None else f"{operands[0]}[{index}]"
            self.known[instruction.name] = text
        elif self._is_alias(instruction):
            self.known[instruction.name] = operands[0]
            if instruction.operands[0] in self.parts:
                self.parts[instruction.name] = self.parts[instruction.operands[0]]
        elif instruction.literal is not None:
            self._keep(instruction, _constant(instruction), uses, few=True)
        else:
            form = self.writer.forms.get(instruction.opcode)
            if form is None:
                raise Unsupported(f"{instruction.opcode} in jax.lax")
            text = self._filled(instruction) or form(self.writer, self.computation, instruction, operands)
            self._keep(instruction, text, uses)

    def _is_alias(self, instruction: Instruction) -> bool:
        if instruction.opcode in ALIASES:
            return True
        target = instruction.attributes.get("custom_call_target", "").strip('"')
        return instruction.opcode == "custom-call" and target.startswith(SHARDING_CALLS)

    def _filled(self, instruction: Instruction) -> str:
        """A constant spread over an array, in the words of `lax.full`; "" for anything else."""
        if instruction.opcode != "broadcast":
            return ""
        operand, shape = self.computation.by_name[instruction.operands[0]], instruction.array
        if operand.literal is None or operand.array.dims:
            return ""
        number = number_text(literal_array(operand.array, operand.literal), shape.dtype)
        name = dtype_text(shape.dtype)
        if '"' in number or "complex" in number:
            return ""
        return f"lax.full({dims_text(shape.dims)}, {number}, {name})"

    def _keep(self, instruction: Instruction, text: str, uses: int, few: bool = False) -> None:
        """Inlined, or a line of its own. few: whether it may be said more than once."""
        array = isinstance(instruction.shape, ArrayShape)
        root = instruction.name == self.computation.root_name
        if root or (array and uses == 1 and len(text) <= self.writer.inline) or (array and few and len(text) <= 20):
            self.known[instruction.name] = text
            return
        name = self.name(instruction.name)
        self.lines += wrapped(f"    {name} = {text}")
        self.known[instruction.name] = name


def _constant(instruction: Instruction) -> str:
    if not isinstance(instruction.shape, ArrayShape):
        raise Unsupported("constant of tuple shape")
    assert instruction.literal is not None
    return array_text(literal_array(instruction.shape, instruction.literal), instruction.shape.dtype)


def identifier(name: str, taken: set[str] | frozenset[str]) -> str:
    """A Python name like an HLO name, and none of `taken`."""
    base = re.sub(r"\W+", "_", re.sub(r"^Arg_|\.\d+$", "", name)).strip("_").lower() or "v"
    base = f"v{base}" if base[0].isdigit() else f"{base}_" if keyword.iskeyword(base) else base
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    return found
