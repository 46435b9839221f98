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
from assay.hlo.attributes import called
from assay.hlo.graph import reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.shape import ArrayShape, Shape, TokenShape, TupleShape
from assay.isolate.graph.kernels import arrays_of, constant_chain
from assay.llo.aliasing import shared_memory

FLAGS = ("--xla_msa_enable=false",)
"""Of libtpu, for the process that compiles such a program."""

_DROPPED = ("control-predecessors", "metadata")


@dataclass(slots=True)
class _Form:
    computation: Computation
    shared: frozenset[int]
    """Operands, counted in arrays, that the kernel writes in place."""
    taken: set[str]
    parameters: list[Instruction] = field(default_factory=list)
    before: list[Instruction] = field(default_factory=list)
    copied: list[Instruction] = field(default_factory=list)
    """Operands that are copied out again."""
    made: dict[str, str] = field(default_factory=dict)
    arrays: int = 0

    def name(self, wanted: str) -> str:
        """A name that is not taken, `wanted` if it can be."""
        found, number = wanted, 0
        while found in self.taken:
            number += 1
            found = f"{wanted}.{number}"
        self.taken.add(found)
        return found

    def operand(self, name: str) -> str:
        """What stands for the operand `name` of the kernel."""
        instruction = self.computation.by_name[name]
        first = self.arrays
        self.arrays += len(arrays_of(instruction.shape))
        in_place = any(first <= number < self.arrays for number in self.shared)
        if name not in self.made:
            self.made[name] = self.make(name, instruction, in_place)
        return self.made[name]

    def make(self, name: str, instruction: Instruction, in_place: bool) -> str:
        chain = constant_chain(self.computation, name)
        if chain and not in_place:
            return self.constant(chain)
        source = self.source(instruction)
        if source is not instruction:
            inner = self.made.get(source.name)
            if inner is None:
                inner = self.made[source.name] = self.value(source.name, source.shape, in_place)
            self.before.append(replace(instruction, operands=(inner,), attributes=_plain(instruction)))
            self.taken.add(instruction.name)
            return instruction.name
        return self.value(name, instruction.shape, in_place)

    def source(self, instruction: Instruction) -> Instruction:
        """What a bitcast reads, where another operand of the kernel reads it too."""
        while instruction.opcode == "bitcast":
            instruction = self.computation.by_name[instruction.operands[0]]
        return instruction

    def constant(self, chain: list[Instruction]) -> str:
        for i in chain:
            if i.name not in self.made:
                self.made[i.name] = i.name
                self.taken.add(i.name)
                self.before.append(replace(i, attributes=_plain(i)))
        return chain[-1].name

    def value(self, name: str, shape: Shape, in_place: bool) -> str:
        if isinstance(shape, TupleShape):
            inner = tuple(self.value(f"{name}.{k}", element, in_place) for k, element in enumerate(shape.elements))
            return self.add(Instruction(self.name(name), "tuple", shape, inner))
        if isinstance(shape, TokenShape):
            return self.add(Instruction(self.name(name), "after-all", shape))
        if not isinstance(shape, ArrayShape):
            raise Unsupported("cut", f"an operand of {print_shape(shape)}")
        far = in_hbm(shape)
        parameter = Instruction(self.name(f"{name}.given"), "parameter", far, parameter_number=len(self.parameters))
        self.parameters.append(parameter)
        if far == shape and not in_place:
            return parameter.name
        near = Instruction(self.name(name), "copy", shape, (parameter.name,))
        self.before.append(near)
        if not in_place:
            self.copied.append(near)
        return near.name

    def add(self, instruction: Instruction) -> str:
        self.before.append(instruction)
        return instruction.name


def tpu_form(module: Module, computation: str, name: str) -> Module:
    """The instruction `name` of a scheduled module as a module to be compiled under FLAGS. Its results are those of the
    instruction, flat, and after them operands. Raises Unsupported for operands that are no arrays.
    """
    inside = module.by_name[computation]
    instruction = inside.by_name[name]
    given = inside.operands(instruction)
    shared = shared_memory(instruction, len(arrays_of(*(o.shape for o in given))), tuple(o.shape for o in given))
    form = _Form(inside, frozenset(shared.values()), {name})
    operands = tuple(form.operand(operand) for operand in instruction.operands)
    root = replace(instruction, operands=operands, attributes=_plain(instruction))
    after: list[Instruction] = []
    results = _results(form, root, root.name, root.shape, after)
    for near in form.copied:
        after.append(Instruction(form.name(f"{near.name}.kept"), "copy", in_hbm(near.array), (near.name,)))
        results.append(after[-1])
    if len(results) == 1:
        end = results[0].name
    else:
        shapes = tuple(result.shape for result in results)
        after.append(Instruction(form.name("results"), "tuple", TupleShape(shapes), tuple(r.name for r in results)))
        end = after[-1].name
    entry = Computation(form.name("alone"), (*form.parameters, *form.before, root, *after), end)
    called_by = (root, *form.before)
    inner = {c.name: c for i in called_by for callee in called(i) for c in reachable(module, callee)}
    attributes = _header([p.shape for p in form.parameters], [r.shape for r in results], entry.root.shape)
    return Module(f"{name}.alone", (*inner.values(), entry), entry.name, attributes)


def in_hbm(shape: ArrayShape) -> ArrayShape:
    """The same array in the TPU's main memory."""
    if shape.layout is None or not shape.layout.memory_space:
        return shape
    return replace(shape, layout=replace(shape.layout, memory_space=0))


def _results(form: _Form, root: Instruction, name: str, shape: Shape, after: list[Instruction]) -> list[Instruction]:
    """The arrays of a result, in HBM; what makes them is added to `after`."""
    if isinstance(shape, TupleShape):
        found = []
        for k, element in enumerate(shape.elements):
            part = Instruction(form.name(f"{name}.{k}"), "get-tuple-element", element, (name,), {"index": str(k)})
            after.append(part)
            found += _results(form, part, part.name, element, after)
        return found
    if not isinstance(shape, ArrayShape):
        return []
    if in_hbm(shape) == shape:
        return [root]
    after.append(Instruction(form.name(f"{name}.out"), "copy", in_hbm(shape), (name,)))
    return [after[-1]]


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
