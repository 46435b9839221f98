"""Where infinities and NaN in a program's outputs may come from: a static analysis, forward from every source.

A source is a constant or an argument that holds one, or an instruction that makes one of finite operands: by leaving
its domain (`log`, `divide`), by overflow (`exponential`, `dot`, a narrowing `convert`), by taking bits for a float, or
in a way that is not known (a custom call). What of +inf, -inf and NaN each operation lets through follows from IEEE 754
and the functions' limits; it is never less than what may happen: an output has no source that is not among its own.
What selects or places values (predicates, indices, shapes) hands nothing on, nor does what is no float.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.hlo import attributes
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType, Shape, TupleShape, leaves

CONSTANT = "constant"
INPUT = "input"
DOMAIN = "domain"
OVERFLOW = "overflow"
BITS = "bits"
UNKNOWN = "unknown"

POS, NEG, NAN = 0, 1, 2
_ALL = (POS, NEG, NAN)


@dataclass(frozen=True, slots=True)
class Source:
    """kind: one of the above. name, opcode: of the instruction, whose names are unique in a module."""

    kind: str
    opcode: str
    name: str


@dataclass(frozen=True, slots=True)
class Masked:
    """How many elements are masked by constants, by arguments, and by leaving a domain or a range; where, by name."""

    constant: int = 0
    argument: int = 0
    left: int = 0
    constants: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        parts = []
        if self.constant:
            parts.append(f"{self.constant} by constants{_listed(self.constants)}")
        if self.argument:
            parts.append(f"{self.argument} by infinite or NaN arguments")
        if self.left:
            parts.append(f"{self.left} by leaving a domain or a range{_listed(self.leaving)}")
        return f"masked: {', '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f" ({shown})" if names else ""


Taint = tuple[int, int, int]
"""The sources, as a set of bits, from which a value may have +inf, -inf, NaN."""

Value = Taint | list["Value"]

CLEAN: Taint = (0, 0, 0)


def sources(module: Module, infinite_inputs: Collection[int] | None = None) -> list[frozenset[Source]]:
    """For each array among the outputs, what may bring infinities or NaN into it.

    infinite_inputs: which of the entry's parameters (arrays, tuples flattened) hold some; any may where None.
    """
    walk = _Walk(module)
    arguments: list[Value] = []
    index = 0
    for parameter in module.entry.parameters:
        flat: list[Taint] = []
        for leaf in leaves(parameter.shape):
            holds = isinstance(leaf, ArrayShape) and (infinite_inputs is None or index in infinite_inputs)
            flat.append(walk.new(INPUT, parameter, _ALL) if holds and _float(leaf) else CLEAN)
            index += isinstance(leaf, ArrayShape)
        arguments.append(_shaped(parameter.shape, flat))
    result = walk.computation(module.entry, arguments)
    pairs = zip(leaves(module.entry.root.shape), _flat(result), strict=True)
    return [walk.named(taint) for leaf, taint in pairs if isinstance(leaf, ArrayShape)]


def holds_constants(module: Module) -> frozenset[str]:
    """The constants that hold an infinity or a NaN."""
    return frozenset(i.name for c in module.computations for i in c.instructions if any(_of_literal(i)))


def kind_of(instruction: Instruction) -> str:
    """How an instruction whose operands are finite makes an infinity or a NaN."""
    if instruction.literal is not None:
        return CONSTANT
    if instruction.parameter_number is not None:
        return INPUT
    opcode = instruction.opcode
    if opcode in _UNARY and _UNARY[opcode][0]:
        return _UNARY[opcode][0]
    return _KINDS.get(opcode, OVERFLOW)


# opcode: how it makes new ones, which, and what becomes of +inf and of -inf. NaN stays NaN.
_UNARY: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "abs":                   ("", (), (POS,), (POS,)),
    "acos":                  (DOMAIN, (NAN,), (NAN,), (NAN,)),
    "acosh":                 (DOMAIN, (NAN,), (POS,), (NAN,)),
    "asin":                  (DOMAIN, (NAN,), (NAN,), (NAN,)),
    "asinh":                 ("", (), (POS,), (NEG,)),
    "atan":                  ("", (), (), ()),
    "atanh":                 (DOMAIN, _ALL, (NAN,), (NAN,)),
    "cbrt":                  ("", (), (POS,), (NEG,)),
    "ceil":                  ("", (), (POS,), (NEG,)),
    "cosh":                  (OVERFLOW, (POS,), (POS,), (POS,)),
    "cosine":                ("", (), (NAN,), (NAN,)),
    "erf":                   ("", (), (), ()),
    "exp2":                  (OVERFLOW, (POS,), (POS,), ()),
    "exponential":           (OVERFLOW, (POS,), (POS,), ()),
    "exponential-minus-one": (OVERFLOW, (POS,), (POS,), ()),
    "floor":                 ("", (), (POS,), (NEG,)),
    "log":                   (DOMAIN, (NEG, NAN), (POS,), (NAN,)),
    "log-plus-one":          (DOMAIN, (NEG, NAN), (POS,), (NAN,)),
    "log2":                  (DOMAIN, (NEG, NAN), (POS,), (NAN,)),
    "logistic":              ("", (), (), ()),
    "negate":                ("", (), (NEG,), (POS,)),
    "round-nearest-afz":     ("", (), (POS,), (NEG,)),
    "round-nearest-even":    ("", (), (POS,), (NEG,)),
    "rsqrt":                 (DOMAIN, _ALL, (), (NAN,)),
    "sign":                  ("", (), (), ()),
    "sine":                  ("", (), (NAN,), (NAN,)),
    "sinh":                  (OVERFLOW, (POS, NEG), (POS,), (NEG,)),
    "sqrt":                  (DOMAIN, (NAN,), (POS,), (NAN,)),
    "tan":                   (OVERFLOW, (POS, NEG), (NAN,), (NAN,)),
    "tanh":                  ("", (), (), ()),
}  # fmt: skip

# What is computed of several operands, any of which may bring any of the three.
_KINDS = {
    **dict.fromkeys(("divide", "remainder", "power", "atan2", "cholesky", "triangular-solve"), DOMAIN),
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), DOMAIN),
    **dict.fromkeys(("bitcast-convert", "rng-bit-generator", "bitcast"), BITS),
    **dict.fromkeys(("custom-call", "infeed", "recv", "recv-done", "scan", "rng"), UNKNOWN),
}

_MOVING = {
    **dict.fromkeys(("broadcast", "copy", "reshape", "reverse", "slice", "transpose", "real", "imag", "domain"), (0,)),
    **dict.fromkeys(("dynamic-slice", "gather", "dynamic-reshape", "set-dimension-size", "add-dependency"), (0,)),
    **dict.fromkeys(("all-gather", "all-to-all", "collective-permute", "collective-broadcast", "shuffle"), (0,)),
    **dict.fromkeys(("optimization-barrier", "opt-barrier", "copy-done"), (0,)),
    **dict.fromkeys(("dynamic-update-slice", "pad", "complex"), (0, 1)),
    "select": (1, 2),
}  # fmt: skip


@dataclass(slots=True)
class _Walk:
    """Sources by number, and what computations were found to do with taints."""

    module: Module
    found: dict[Source, int] = field(default_factory=dict)
    memo: dict[tuple[str, str], Value] = field(default_factory=dict)

    def new(self, kind: str, instruction: Instruction, which: Sequence[int] = _ALL) -> Taint:
        source = Source(kind, instruction.opcode, instruction.name)
        bit = 1 << self.found.setdefault(source, len(self.found))
        return (bit * (POS in which), bit * (NEG in which), bit * (NAN in which))

    def named(self, taint: Taint) -> frozenset[Source]:
        any_of = taint[0] | taint[1] | taint[2]
        return frozenset(source for source, number in self.found.items() if any_of >> number & 1)

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        key = name, repr(arguments)
        if key not in self.memo:
            self.memo[key] = self.computation(self.module.by_name[name], arguments)
        return self.memo[key]

    def settled(self, name: str, state: Value, rest: Sequence[Value] = ()) -> Value:
        """What a computation that takes its own results makes of `state` in the end."""
        while True:
            given = [state] if not rest else [*_as_list(state), *rest]
            after = _joined(state, self.call(name, given))
            if after == state:
                return state
            state = after

    def computation(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        values: dict[str, Value] = {}
        for instruction in computation.instructions:
            if instruction.parameter_number is not None:
                values[instruction.name] = arguments[instruction.parameter_number]
                continue
            operands = [values[name] for name in instruction.operands]
            value = self.instruction(computation, instruction, operands)
            values[instruction.name] = _floats_alone(value, instruction.shape)
        return values[computation.root_name]

    def instruction(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        opcode = instruction.opcode
        if instruction.literal is not None:
            which = _of_literal(instruction)
            return _shaped(instruction.shape, [self.new(CONSTANT, instruction, w) if w else CLEAN for w in which])
        if opcode in _STRUCTURAL:
            return _STRUCTURAL[opcode](self, instruction, operands)
        if opcode == "bitcast":
            source = computation.by_name[instruction.operands[0]].shape
            moved = not isinstance(source, ArrayShape) or source.dtype == instruction.array.dtype
            return operands[0] if moved else self.any(instruction, operands)
        shape = instruction.shape
        if not isinstance(shape, ArrayShape):
            return self.any(instruction, operands)
        if not _float(shape):
            return CLEAN
        if opcode in _MOVING:
            return _union([operands[k] for k in _MOVING[opcode]])
        if opcode in _UNARY and not shape.dtype.is_complex:
            kind, new, pos, neg = _UNARY[opcode]
            a = _union(operands)
            made = self.new(kind, instruction, new) if kind else CLEAN
            return _union([made, _mapped(a, pos, neg)])
        if opcode in ("convert", "reduce-precision", "stochastic-convert"):
            kept = operands[:1]
            source = computation.by_name[instruction.operands[0]].shape
            narrower = opcode != "convert" or not isinstance(source, ArrayShape) or _narrows(source.dtype, shape.dtype)
            made = self.new(OVERFLOW, instruction) if narrower else CLEAN
            return _union([made, *kept])
        if opcode in ("maximum", "minimum"):
            return _union(operands)
        if opcode == "clamp":
            low, middle, high = (_union([o]) for o in operands)
            return _union([low, high, (middle[0] if high[0] else 0, middle[1] if low[1] else 0, middle[2])])
        if opcode == "iota":
            return CLEAN
        return self.any(instruction, operands)

    def any(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """New ones of any sort, and any of what the operands may have."""
        made = _union([self.new(kind_of(instruction), instruction), _any(_union(operands))])
        return _shaped(instruction.shape, [made] * len(_leaves(instruction.shape)))


def _call(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return walk.call(attributes.called(instruction)[0], operands)


def _while(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return walk.settled(attributes.computation(instruction, "body"), operands[0])


def _conditional(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    names = attributes.branches(instruction)
    found = [walk.call(name, [operand]) for name, operand in zip(names, operands[1:], strict=True)]
    result = found[0]
    for other in found[1:]:
        result = _joined(result, other)
    return result


def _reduce(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    """reduce, reduce-window: the body on what was reduced before and an element, as often as it takes."""
    half = len(operands) // 2
    state = operands[half:] if half > 1 else operands[half]
    name = attributes.computation(instruction, "to_apply")
    return _joined(state, walk.settled(name, state, operands[:half]))


def _scatter(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    count = len(operands) // 2
    state = operands[:count] if count > 1 else operands[0]
    return walk.settled(attributes.computation(instruction, "to_apply"), state, operands[count + 1 :])


def _select_and_scatter(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return walk.settled(attributes.computation(instruction, "scatter"), operands[2], [operands[1]])


def _all_reduce(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    name = attributes.computation(instruction, "to_apply")
    found: list[Value] = [walk.settled(name, operand, [operand]) for operand in operands]
    return found[0] if isinstance(instruction.shape, ArrayShape) else found


def _map(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return walk.call(attributes.computation(instruction, "to_apply"), operands)


def _sort(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return operands if isinstance(instruction.shape, TupleShape) else operands[0]


def _topk(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return [operands[0], CLEAN]


def _element(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    whole = operands[0]
    return whole[attributes.integer(instruction, "index")] if isinstance(whole, list) else whole


def _async_start(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    name = attributes.called(instruction)[0]
    assert isinstance(instruction.shape, TupleShape)
    contexts: list[Value] = [_shaped(s, [CLEAN] * len(_leaves(s))) for s in instruction.shape.elements[2:]]
    if len(operands) < len(walk.module.by_name[name].parameters):
        return _as_list(walk.any(instruction, operands))
    return [list(operands), walk.call(name, operands), *contexts]


def _async_done(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    started = operands[0]
    return started[1] if isinstance(started, list) else started


def _same(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return operands[0]


def _nothing(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return CLEAN


def _copy_start(walk: _Walk, instruction: Instruction, operands: list[Value]) -> Value:
    return [operands[0], operands[0], CLEAN]


_STRUCTURAL: dict[str, Callable[[_Walk, Instruction, list[Value]], Value]] = {
    "tuple": lambda walk, instruction, operands: operands,
    "get-tuple-element": _element,
    "opt-barrier": _same,
    "optimization-barrier": _same,
    "call": _call,
    "fusion": _call,
    "while": _while,
    "conditional": _conditional,
    "reduce": _reduce,
    "reduce-window": _reduce,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "all-reduce-done": _same,
    "reduce-scatter": _all_reduce,
    "map": _map,
    "sort": _sort,
    "topk": _topk,
    "async-start": _async_start,
    "async-done": _async_done,
    "copy-start": _copy_start,
    "after-all": _nothing,
}


# ---- values


def _leaves(shape: Shape) -> list[Shape]:
    return list(leaves(shape))


def _float(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and (shape.dtype.is_float or shape.dtype.is_complex)


def _narrows(source: DType, target: DType) -> bool:
    """Whether finite values of one type may be infinite in another."""
    greatest = source.part.max if source.is_float or source.is_complex else 2.0**source.bits
    return float(greatest) > float(target.part.max)


def _of_literal(instruction: Instruction) -> list[tuple[int, ...]]:
    """For each array of a constant, which of the three it holds."""
    literal = instruction.literal
    if literal is None:
        return []
    if not any(word in literal.text for word in ("inf", "nan")) or not isinstance(instruction.shape, ArrayShape):
        return [()] * len(_leaves(instruction.shape))
    values = literal_array(instruction.shape, literal)
    wide = values.astype(np.complex128)
    parts = np.concatenate([wide.real.ravel(), wide.imag.ravel()])
    held = (
        (POS, bool(np.isposinf(parts).any())),
        (NEG, bool(np.isneginf(parts).any())),
        (NAN, bool(np.isnan(parts).any())),
    )
    return [tuple(what for what, there in held if there)]


def _mapped(taint: Taint, pos: tuple[int, ...], neg: tuple[int, ...]) -> Taint:
    found = [0, 0, taint[NAN]]
    for what in pos:
        found[what] |= taint[POS]
    for what in neg:
        found[what] |= taint[NEG]
    return found[0], found[1], found[2]


def _any(taint: Taint) -> Taint:
    whole = taint[0] | taint[1] | taint[2]
    return whole, whole, whole


def _union(values: Sequence[Value]) -> Taint:
    pos = neg = nan = 0
    for value in values:
        for taint in _flat(value):
            pos, neg, nan = pos | taint[0], neg | taint[1], nan | taint[2]
    return pos, neg, nan


def _joined(a: Value, b: Value) -> Value:
    if isinstance(a, list) and isinstance(b, list):
        return [_joined(x, y) for x, y in zip(a, b, strict=True)]
    return _union([a, b])


def _flat(value: Value) -> list[Taint]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, list) else [value]


def _as_list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _shaped(shape: Shape, flat: Sequence[Taint]) -> Value:
    """Taints of a shape's leaves, nested as it is."""
    if not isinstance(shape, TupleShape):
        return flat[0]
    found: list[Value] = []
    start = 0
    for element in shape.elements:
        count = len(_leaves(element))
        found.append(_shaped(element, flat[start : start + count]))
        start += count
    return found


def _floats_alone(value: Value, shape: Shape) -> Value:
    if isinstance(shape, TupleShape) and isinstance(value, list) and len(value) == len(shape.elements):
        return [_floats_alone(part, element) for part, element in zip(value, shape.elements, strict=True)]
    return CLEAN if isinstance(shape, ArrayShape) and not _float(shape) else value
