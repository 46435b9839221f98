"""A drawn program: parameters with their values, instructions, and the computations that they call.

Names begin with `~`, which stands for nothing in a program of its own and for a prefix where several programs are put
into one module. The instruction in question is the last one; its arrays are the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.hlo.shape import DTYPES, ArrayShape, DType
from assay.reference.value import Array

from .choices import Choices
from .values import CLASSES, TAME, draw_values


@dataclass(frozen=True)
class Program:
    """opcode, dtype: what the draw is about. parameters: (name, shape, value). outputs: name and shape of each array.

    record: the choices that make it again. notes: what a drawer knows of the values it drew.
    """

    opcode: str
    dtype: str
    parameters: tuple[tuple[str, ArrayShape, Array], ...]
    lines: tuple[str, ...]
    computations: str
    outputs: tuple[tuple[str, ArrayShape], ...]
    record: tuple[int, ...]
    notes: frozenset[str] = frozenset()

    @property
    def arguments(self) -> list[Array]:
        return [value for _, _, value in self.parameters]

    @property
    def text(self) -> str:
        return module_text([self])

    @property
    def statement(self) -> str:
        """The instruction in question."""
        of_opcode = [line for line in self.lines if f" {self.opcode}(" in line]
        return (of_opcode or self.lines)[-1].replace("~", "")


def show(shape: ArrayShape) -> str:
    return f"{shape.dtype.name}[{','.join(map(str, shape.dims))}]"


def module_text(programs: Sequence[Program]) -> str:
    """One module of all the programs, whose result is the tuple of all their outputs."""
    computations, lines, outputs = [], [], []
    number = 0
    for k, program in enumerate(programs):
        tag = f"k{k}_" if len(programs) > 1 else ""
        computations.append(program.computations.replace("~", tag))
        for name, shape, _ in program.parameters:
            lines.append(f"{name.replace('~', tag)} = {show(shape)} parameter({number})")
            number += 1
        lines += [line.replace("~", tag) for line in program.lines]
        outputs += [(name.replace("~", tag), shape) for name, shape in program.outputs]
    kinds = ", ".join(show(shape) for _, shape in outputs)
    root = f"ROOT %result = ({kinds}) tuple({', '.join(name for name, _ in outputs)})"
    body = "\n".join(f"  {line}" for line in (*lines, root))
    return f"HloModule drawn\n\n{''.join(computations)}ENTRY %entry {{\n{body}\n}}\n"


@dataclass
class Builder:
    """What a drawer writes to. `depth`: how many operations may stand before an operand."""

    choices: Choices
    depth: int = 1
    parameters: list[tuple[str, ArrayShape, Array]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    computations: list[str] = field(default_factory=list)
    outputs: list[tuple[str, ArrayShape]] = field(default_factory=list)
    shapes: dict[str, ArrayShape] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)
    count: int = 0

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"%~{stem}{self.count}"

    def dims(self, least: int = 0, most: int = 3, *, empty: bool = True, large: bool = True) -> tuple[int, ...]:
        """Dimensions of a small array: mostly 1 to 5, at times 0, at times one that a byte does not count."""
        rank = self.choices.between(least, most)
        sizes = [self.choices.pick((2, 3, 1, 4, 5, 7)) for _ in range(rank)]
        if rank and large and self.choices.chance(8):
            sizes[self.choices.below(rank)] = self.choices.pick((17, 33, 64, 130, 260))
        if rank and empty and self.choices.chance(25):
            sizes[self.choices.below(rank)] = 0
        return tuple(sizes)

    def parameter(
        self, dtype: DType, dims: Sequence[int], classes: tuple[str, ...] = CLASSES, value: Array | None = None
    ) -> str:
        shape = ArrayShape(dtype, tuple(dims))
        if value is None:
            value = draw_values(self.choices, dtype, shape.dims, classes)
        name = self.fresh("p")
        self.parameters.append((name, shape, value))
        self.shapes[name] = shape
        return name

    def constant(self, dtype: DType, value: Array) -> str:
        """A constant of any shape, written in full."""
        return self.op(ArrayShape(dtype, tuple(value.shape)), f"constant({literal(value)})")

    def op(self, shape: ArrayShape, text: str) -> str:
        """One instruction of array shape."""
        name = self.fresh()
        self.lines.append(f"{name} = {show(shape)} {text}")
        self.shapes[name] = shape
        return name

    def tuple_op(self, shapes: Sequence[ArrayShape], text: str) -> str:
        """One instruction whose result is a tuple of arrays."""
        name = self.fresh()
        self.lines.append(f"{name} = ({', '.join(map(show, shapes))}) {text}")
        return name

    def element(self, name: str, index: int, shape: ArrayShape) -> str:
        return self.op(shape, f"get-tuple-element({name}), index={index}")

    def results(self, shapes: Sequence[ArrayShape], text: str) -> None:
        """The instruction in question, one array or a tuple of several, whose arrays are the outputs."""
        if len(shapes) == 1:
            self.outputs = [(self.op(shapes[0], text), shapes[0])]
        else:
            name = self.tuple_op(shapes, text)
            self.outputs = [(self.element(name, i, s), s) for i, s in enumerate(shapes)]

    def result(self, dtype: DType, dims: Sequence[int], text: str) -> None:
        self.results([ArrayShape(dtype, tuple(dims))], text)

    def operand(self, dtype: DType, dims: Sequence[int], classes: tuple[str, ...] = CLASSES) -> str:
        """An operand: a parameter, or now and then a constant or a short chain of operations on one."""
        dims = tuple(dims)
        if self.depth > 0 and self.choices.chance(6):
            self.depth -= 1
            return self._chain(dtype, dims, classes)
        return self.parameter(dtype, dims, classes)

    def _chain(self, dtype: DType, dims: tuple[int, ...], classes: tuple[str, ...]) -> str:
        shape = ArrayShape(dtype, dims)
        way = self.choices.pick(("constant", "scalar", "transpose", "reverse", "select", "convert", "slice", "add"))
        if way == "constant" and shape.size <= 64:
            return self.constant(dtype, draw_values(self.choices, dtype, dims, classes))
        if way == "scalar":
            return self.op(shape, f"broadcast({self.parameter(dtype, (), classes)}), dimensions={{}}")
        if way == "transpose" and len(dims) > 1:
            inner = self.parameter(dtype, dims[::-1], classes)
            order = ",".join(str(d) for d in reversed(range(len(dims))))
            return self.op(shape, f"transpose({inner}), dimensions={{{order}}}")
        if way == "reverse" and dims:
            axis = self.choices.below(len(dims))
            return self.op(shape, f"reverse({self.parameter(dtype, dims, classes)}), dimensions={{{axis}}}")
        if way == "slice" and dims:
            inner = self.parameter(dtype, (dims[0] + 2, *dims[1:]), classes)
            ranges = ", ".join(f"[{lo}:{hi}]" for lo, hi in [(1, dims[0] + 1), *((0, d) for d in dims[1:])])
            return self.op(shape, f"slice({inner}), slice={{{ranges}}}")
        if way == "convert" and not dtype.is_complex:
            wide = DTYPES["f32" if dtype.is_float else "s32"]
            tame = tuple(c for c in classes if c in TAME) or TAME
            return self.op(shape, f"convert({self.parameter(wide, dims, tame)})")
        if way == "add" and dtype.kind != "pred" and dtype.bits >= 8 and dtype.name != "f8e8m0fnu":
            operands = [self.parameter(dtype, dims, tuple(c for c in classes if c in TAME) or TAME) for _ in range(2)]
            return self.op(shape, f"add({', '.join(operands)})")
        chosen = self.parameter(DTYPES["pred"], dims)
        both = [self.parameter(dtype, dims, classes) for _ in range(2)]
        return self.op(shape, f"select({chosen}, {', '.join(both)})")

    def computation(
        self, parameters: Sequence[ArrayShape], lines: Sequence[str], stem: str = "body", root: int = -1
    ) -> str:
        """A computation with parameters `%a0`, `%a1`, ...; its root is the last line, or parameter `root`. Its name."""
        name = self.fresh(stem)
        head = [f"%a{i} = {show(shape)} parameter({i})" for i, shape in enumerate(parameters)]
        body = [*head, *lines]
        body[root] = f"ROOT {body[root]}"
        inside = "\n".join("  " + line for line in body)
        self.computations.append(f"{name} {{\n{inside}\n}}\n\n")
        return name

    def program(self, opcode: str, dtype: str) -> Program:
        return Program(
            opcode,
            dtype,
            tuple(self.parameters),
            tuple(self.lines),
            "".join(self.computations),
            tuple(self.outputs),
            tuple(self.choices.taken),
            frozenset(self.notes),
        )


def literal(value: Array) -> str:
    """An array as HLO text has constants."""
    if value.ndim:
        return "{" + ", ".join(literal(row) for row in value) + "}"
    if value.dtype.kind == "b":
        return "true" if value else "false"
    if value.dtype.kind == "c":
        return f"({float(value.real)!r}, {float(value.imag)!r})"
    number = value.item()
    if value.dtype.kind not in "iu" and not str(value.dtype).startswith(("int", "uint")):
        return repr(float(number))
    return str(int(number))


def braces(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
