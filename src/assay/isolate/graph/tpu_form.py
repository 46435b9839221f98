"""One kernel of a TPU program as a program of its own, whose compiler makes the same kernel of it.

Known (v5e, libtpu 0.0.52; benchmarks/isolation_same_kernel.py gives the share): a scheduled module goes straight to the
backend. What the kernel's code depends on besides its instruction is where its operands and results lie, so

- the entry's parameters and results lie in HBM; an operand with a memory space S(n) is copied there before, and each
  result back out after; assignment of memory spaces has to be off (FLAGS), else it moves others;
- every operand that is copied in is copied out again after the kernel, else a result may take its buffer; not so one
  that the kernel writes in place: that is a copy of its own, which ends there;
- operands that are one buffer under two shapes are so here;
- layouts of the entry are said twice, else the client asks for default ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assay.errors import Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.shape import ArrayShape, Shape, TokenShape, TupleShape
from assay.isolate.graph.kernels import arrays_of
from assay.llo.aliasing import shared_memory

FLAGS = ("--xla_msa_enable=false",)
"""Of libtpu, for the process that compiles such a program."""

_DROPPED = ("control-predecessors", "metadata")


def tpu_form(alone: Module) -> Module:
    """One instruction of a scheduled module, as `assay.isolate.graph.kernels.alone` cuts it, to be compiled under
    FLAGS. It takes the same arguments; its results are those of the instruction, flat, and after them operands. Raises
    Unsupported for operands that are no arrays.
    """
    entry = alone.entry
    form = _Form({i.name for i in entry.instructions}, _in_place(entry))
    for instruction in entry.instructions:
        if instruction.parameter_number is not None:
            form.parameter(instruction)
        else:
            form.body.append(replace(instruction, attributes=_plain(instruction)))
            if instruction.name != entry.root_name and instruction.opcode != "bitcast":
                form.keep(instruction)
    root = form.body[-1]
    results = form.results(root, root.name, root.shape)
    results += [form.add(form.name(f"{n.name}.kept"), "copy", in_hbm(n.array), n.name) for n in form.kept]
    if len(results) == 1:
        end = results[0].name
    else:
        shapes = TupleShape(tuple(result.shape for result in results))
        end = form.add(form.name("results"), "tuple", shapes, *(result.name for result in results)).name
    new = Computation(entry.name, (*form.parameters, *form.body), end)
    attributes = _header([p.shape for p in form.parameters], [r.shape for r in results], new.root.shape)
    others = tuple(c for c in alone.computations if c is not entry)
    return Module(alone.name, (*others, new), new.name, attributes)


@dataclass(slots=True)
class _Form:
    """taken: names. in_place: parameters that the kernel writes. kept: what is copied out after it."""

    taken: set[str]
    in_place: set[str]
    parameters: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    kept: list[Instruction] = field(default_factory=list)

    def name(self, wanted: str) -> str:
        """A name that is not taken, `wanted` if it can be."""
        found, number = wanted, 0
        while found in self.taken:
            number += 1
            found = f"{wanted}.{number}"
        self.taken.add(found)
        return found

    def add(self, name: str, opcode: str, shape: Shape, *operands: str, **attributes: str) -> Instruction:
        self.body.append(Instruction(name, opcode, shape, operands, attributes))
        return self.body[-1]

    def parameter(self, value: Instruction) -> None:
        """A parameter in HBM, and under the name of `value` what the kernel takes."""
        shape = value.shape
        if isinstance(shape, ArrayShape) and in_hbm(shape) == shape and value.name not in self.in_place:
            self.given(value.name, shape)
        elif isinstance(shape, ArrayShape):
            given = self.given(self.name(f"{value.name}.given"), in_hbm(shape))
            near = self.add(value.name, "copy", shape, given.name)
            if value.name not in self.in_place:
                self.keep(near)
        else:
            self.whole(value.name, shape)

    def given(self, name: str, shape: Shape) -> Instruction:
        self.parameters.append(Instruction(name, "parameter", shape, parameter_number=len(self.parameters)))
        return self.parameters[-1]

    def whole(self, name: str, shape: Shape) -> None:
        """A tuple, of a parameter for each of its arrays; a token."""
        if isinstance(shape, TupleShape):
            parts = [self.name(f"{name}.{k}") for k in range(len(shape.elements))]
            for part, element in zip(parts, shape.elements, strict=True):
                self.parameter(Instruction(part, "parameter", element))
            self.add(name, "tuple", shape, *parts)
        elif isinstance(shape, TokenShape):
            self.add(name, "after-all", shape)
        else:
            raise Unsupported("cut", f"an operand of {print_shape(shape)}")

    def keep(self, near: Instruction) -> None:
        if isinstance(near.shape, ArrayShape) and in_hbm(near.shape) != near.shape:
            self.kept.append(near)

    def results(self, value: Instruction, name: str, shape: Shape) -> list[Instruction]:
        """The arrays of a result, in HBM."""
        if isinstance(shape, TupleShape):
            found = []
            for k, element in enumerate(shape.elements):
                part = self.add(self.name(f"{name}.{k}"), "get-tuple-element", element, name, index=str(k))
                found += self.results(part, part.name, element)
            return found
        if not isinstance(shape, ArrayShape):
            return []
        return [value if in_hbm(shape) == shape else self.add(self.name(f"{name}.out"), "copy", in_hbm(shape), name)]


def _in_place(entry: Computation) -> set[str]:
    """The parameters whose memory a result takes."""
    given = entry.operands(entry.root)
    inputs = [name for o in given for name in [o.name] * len(arrays_of(o.shape))]
    shared = shared_memory(entry.root, len(inputs), tuple(o.shape for o in given))
    found = set()
    for number in shared.values():
        value = entry.by_name[inputs[number]]
        while value.opcode == "bitcast":
            value = entry.by_name[value.operands[0]]
        found.add(value.name)
    return found


def in_hbm(shape: ArrayShape) -> ArrayShape:
    """The same array in the TPU's main memory."""
    if shape.layout is None or not shape.layout.memory_space:
        return shape
    return replace(shape, layout=replace(shape.layout, memory_space=0))


def _plain(instruction: Instruction) -> Mapping[str, str]:
    return {key: value for key, value in instruction.attributes.items() if key not in _DROPPED}


def _header(parameters: list[Shape], results: list[Shape], root: Shape) -> dict[str, str]:
    layout = f"{{({', '.join(map(print_shape, parameters))})->{print_shape(root)}}}"
    modes = [";".join(_mode(shape) for shape in shapes) for shapes in (parameters, results)]
    return {
        "is_scheduled": "true",
        "entry_computation_layout": layout,
        "frontend_attributes": f'{{arg_layout_modes="{modes[0]}",out_layout_modes="{modes[1]}"}}',
    }


def _mode(shape: Shape) -> str:
    text = print_shape(shape)
    return text[text.index("{") :] if "{" in text else "{}"
