"""Records for one instruction at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from assay.errors import Unsupported
from assay.llo.code import PRED, WIDTH, Argument
from assay.llo.lowering.registers import FILE_OF, File, Registers, literal
from assay.llo.program import Immediate, Instruction, Operand, Value
from assay.llo.semantics.table import OPS, Op

DROPPED = frozenset(("xla_tuple", "vnop", "vdelay", "sfence", "vtrace", "sfence.stores", "compiler-scheduling-barrier"))
"""What has no effect on values: kept order, waiting, traces."""

Record = list[int]
Slot = tuple[File, int]
WRITTEN, READ = "VMS", "vms"


@dataclass(slots=True)
class Emitted:
    """The records of one instruction. reads, writes: the registers that it has to do with, other than its own."""

    instruction: Instruction
    records: list[Record] = field(default_factory=list)
    reads: set[Slot] = field(default_factory=set)
    writes: set[Slot] = field(default_factory=set)


@dataclass(slots=True)
class Emitter:
    """Lowers instructions; `arguments` collects the kernel's operands. Raises Unsupported for an opcode that is not in
    the table.
    """

    registers: Registers
    arguments: list[Argument] = field(default_factory=list)
    _spaces: dict[str, str] = field(default_factory=dict)  # of pointers, by name
    _now: Emitted | None = None

    def emit(self, instruction: Instruction) -> Emitted:
        """The records of an instruction that is no branch and no phi."""
        emitted = self._now = Emitted(instruction)
        opcode = instruction.opcode
        if opcode in DROPPED:
            return emitted
        handler = _HANDLERS.get(opcode) or _HANDLERS.get(opcode.split(".", 1)[0] + ".")
        if instruction.otherwise is not None:
            self.move(instruction.dst, instruction.otherwise)
        if handler is not None:
            handler(self, instruction)
        else:
            self._by_signature(instruction)
        return emitted

    # ---- records

    def record(self, name: str, *fields: int, predicated: bool = True) -> Record:
        """Adds a record of op `name`; the fields in the order of its signature, `.` left out."""
        op, now = OPS.get(name), self._now
        if op is None:
            raise Unsupported(name)
        assert now is not None
        record = [op.number, *[0] * (WIDTH - 1)]
        given = iter(fields)
        for place, letter in enumerate(op.signature, 1):
            if letter == ".":
                continue
            record[place] = next(given)
            if letter in READ:
                now.reads.add((letter.upper(), record[place]))  # type: ignore[arg-type]  # one of V, M, S
            elif letter in WRITTEN:
                now.writes.add((letter, record[place]))  # type: ignore[arg-type]  # one of V, M, S
        if predicated and now.instruction.predicate is not None:
            record[PRED] = self.predicate(now.instruction.predicate)
            now.reads.add(("S", abs(record[PRED]) - 1))
        now.records.append(record)
        return record

    def bare(self, name: str, *fields: int) -> Record:
        """A record of no instruction, always run; for ops whose fields stand without gaps."""
        op = OPS.get(name)
        if op is None:
            raise Unsupported(name)
        return [op.number, *fields, *[0] * (WIDTH - 1 - len(fields))]

    def jump(self) -> Record:
        """A jump to record 0."""
        return self.bare("jump")

    def parallel(self, at: Instruction, pairs: Sequence[tuple[Value, Operand]]) -> list[Record]:
        """Copies that are all done at once: what one of them overwrites, another still reads as it was."""
        self._now = emitted = Emitted(replace(at, predicate=None))
        moves = [(*self.registers.of(dst), self.operand(self.registers.of(dst)[0], source)) for dst, source in pairs]
        moves = [move for move in moves if move[1] != move[2]]
        overwritten = {(file, into) for file, into, _ in moves}
        for number, (file, into, source) in enumerate(moves):
            if (file, source) in overwritten:
                kept = self.registers.fresh(file)
                self.record(f"mov.{file.lower()}", kept, source)
                moves[number] = file, into, kept
        for file, into, source in moves:
            self.record(f"mov.{file.lower()}", into, source)
        return emitted.records

    def scalar_now(self, value: Value, records: list[Record], lines: list[int]) -> int:
        """A register with a predicate's value; records that it takes are added."""
        number = self.registers.scalar(replace(value, negated=False))
        if not value.negated:
            return number
        into = self.registers.fresh("S")
        records.append(self.bare("pneg", into, number))
        lines.append(lines[-1] if lines else 1)
        return into

    def predicate(self, value: Value) -> int:
        """The PRED field that stands for a predicate."""
        number = self.registers.scalar(replace(value, negated=False)) + 1
        return -number if value.negated else number

    def move(self, dst: Value | None, source: Operand) -> None:
        """dst = source, whatever the predicate."""
        assert dst is not None
        file, number = self.registers.of(dst)
        other = self.operand(file, source)
        if other != number:
            self.record(f"mov.{file.lower()}", number, other, predicated=False)

    def scalar(self, operand: Operand) -> int:
        """A register with a scalar operand, negated predicates included."""
        if isinstance(operand, Value) and operand.negated:
            into = self.registers.fresh("S")
            self.record("pneg", into, self.registers.scalar(replace(operand, negated=False)), predicated=False)
            return into
        return self.registers.scalar(operand)

    def operand(self, file: File, operand: Operand) -> int:
        """A register of `file` with an operand; a scalar is spread over a vector's lanes."""
        if file == "S":
            return self.scalar(operand)
        if isinstance(operand, Immediate):
            return self.registers.constant(file, operand.bits if file == "V" else 15 * (operand.bits & 1))
        if isinstance(operand, Value) and operand.kind and FILE_OF[operand.kind] == file:
            return self.registers.of(operand)[1]
        if isinstance(operand, Value) and not operand.kind and file == "V":
            return self._pattern(operand.name)
        if file == "M":
            raise Unsupported(f"{operand} as a mask")
        into = self.registers.fresh("V")
        self.record("vstv", into, self.scalar(operand), predicated=False)
        return into

    def _pattern(self, token: str) -> int:
        """What a token of an XLU's pattern stands for; in bundles a unit has one."""
        now = self._now
        assert now is not None
        unit = now.instruction.unit
        return self.registers.named("V", f"pattern {unit}" if self.registers.physical and unit else f"token {token}")

    # ---- by kind

    def _by_signature(self, instruction: Instruction) -> None:
        op = OPS.get(instruction.opcode)
        if op is None:
            raise Unsupported(instruction.opcode)
        left = list(instruction.operands)
        fields: list[int] = []
        token_given = False
        for place, letter in enumerate(op.signature):
            if letter == ".":
                continue
            if letter in WRITTEN and place == 0:
                fields.append(self._result(instruction, letter))
            elif letter in READ:
                if not left:
                    raise Unsupported(instruction.opcode, "an operand is missing")
                fields.append(self.operand(letter.upper(), _next(letter, left)))  # type: ignore[arg-type]  # V, M, S
            elif letter == "i":
                fields.append(_signed(literal(left, 0)))
                left.pop(0)
            elif letter == "u":
                fields.append(unit_number(instruction.unit))
            elif letter == "t":
                token_given = True
                fields.append(self._token(instruction, op, left))
        if left and not (token_given and all(_is_token(operand) for operand in left)):
            raise Unsupported(instruction.opcode, f"{len(instruction.operands)} operands")
        self.record(instruction.opcode, *fields)

    def _result(self, instruction: Instruction, letter: str) -> int:
        if instruction.dst is None:
            return self._pattern(instruction.token)  # vset.pattern.permute makes one that a token names
        file, number = self.registers.of(instruction.dst)
        if file != letter:
            raise Unsupported(instruction.opcode, f"into %{instruction.dst.name}")
        return number

    def _token(self, instruction: Instruction, op: Op, left: list[Operand]) -> int:
        """A push has its own; a pop that of the push that it names, or 0."""
        if op.signature[0] == "." or instruction.dst is None:
            return self.registers.token(instruction.token)
        if left and _is_token(left[0]):
            operand = left.pop(0)
            assert isinstance(operand, Value)
            return self.registers.token(operand.name)
        return 0

    def place(self, instruction: Instruction) -> tuple[int, int]:
        """Of a memory operand: the register of the base, and the offset."""
        memory = instruction.memory
        if memory is None:
            raise Unsupported(instruction.opcode, "no memory operand")
        base = self.scalar(memory.base)
        if memory.index is not None:
            into = self.registers.fresh("S")
            self.record("sadd.s32", into, base, self.scalar(memory.index), predicated=False)
            base = into
        return base, memory.offset

    def vector_memory(self, instruction: Instruction) -> None:
        """vld and vst in all forms; the stride has the group above its 16 bits."""
        base, offset = self.place(instruction)
        memory = instruction.memory
        assert memory is not None
        if memory.space != "vmem":
            raise Unsupported(instruction.opcode, f"in {memory.space}")
        stride = memory.stride if memory.group == 1 else (memory.group << 16) | (memory.stride & 0xFFFF)
        where = base, offset, stride, self.scalar(memory.sublanes)
        operands = list(instruction.operands)
        if instruction.opcode.startswith("vld"):
            assert instruction.dst is not None
            pattern = () if memory.pattern is None else (_signed(memory.pattern),)
            self.record(instruction.opcode, self.registers.of(instruction.dst)[1], *where, *pattern)
        else:
            mask = (self.operand("M", operands.pop(0)),) if len(operands) > 1 else ()
            self.record(instruction.opcode, self.operand("V", operands[0]), *where, *mask)

    def scalar_memory(self, instruction: Instruction) -> None:
        base, offset = self.place(instruction)
        assert instruction.memory is not None
        if instruction.memory.space != "smem":
            raise Unsupported(instruction.opcode, f"in {instruction.memory.space}")
        if instruction.opcode == "sld":
            assert instruction.dst is not None
            self.record("sld", self.registers.of(instruction.dst)[1], base, offset)
        else:
            self.record("sst", self.scalar(instruction.operands[0]), base, offset)

    def call_operand(self, instruction: Instruction) -> None:
        """An operand of the kernel has a register of its own, which is copied where the dump says."""
        assert instruction.dst is not None
        space, kind, shape = instruction.words.split(" ", 2)
        own = self.registers.fresh("S")
        self._spaces[instruction.dst.name] = space
        index = _signed(literal(instruction.operands, 0))
        self.arguments.append(Argument(index, own, kind == "output", "" if space == "-" else space, shape))
        self.record("mov.s", self.registers.of(instruction.dst)[1], own)

    def pointer(self, instruction: Instruction) -> None:
        """int_to_ptr: the same bits."""
        assert instruction.dst is not None
        self._spaces[instruction.dst.name] = instruction.opcode.partition(".")[2].removesuffix(".sflag")
        self.move(instruction.dst, instruction.operands[0])

    def number(self, instruction: Instruction) -> None:
        """reloc: a number that the linker puts in; here each is what it is called."""
        self.move(instruction.dst, instruction.operands[0])

    def lea(self, instruction: Instruction) -> None:
        assert instruction.dst is not None
        self._spaces[instruction.dst.name] = instruction.opcode.partition(".")[2]
        a, b = (self.scalar(operand) for operand in instruction.operands)
        self.record("sadd.s32", self.registers.of(instruction.dst)[1], a, b)

    def wide_product(self, instruction: Instruction) -> None:
        """A pair of words, of 64 bits, that later extracts name."""
        assert instruction.dst is not None
        x, y = (self.operand("V", operand) for operand in instruction.operands)
        low, high = self._pair(instruction.dst.name)
        self.record("vmul.u32.u64.low", low, x, y)
        self.record("vmul.u32.u64.high", high, x, y, low)

    def extract(self, instruction: Instruction) -> None:
        (pair,) = instruction.operands
        assert instruction.dst is not None
        assert isinstance(pair, Value)
        low, high = self._pair(pair.name)
        into = self.registers.of(instruction.dst)[1]
        self.record("mov.v", into, low if instruction.opcode == "vextract.low.u32" else high)

    def _pair(self, name: str) -> tuple[int, int]:
        return self.registers.named("V", f"low {name}"), self.registers.named("V", f"high {name}")

    def transpose(self, instruction: Instruction) -> None:
        """vxpose: first 1, last 2, short 4, narrow 8, then index and count."""
        found = re.match(r"\[(\d+)/(\d+)\]", instruction.words)
        if found is None:
            raise Unsupported(instruction.opcode, "no place in a sequence")
        index, count = int(found[1]), int(found[2])
        last = instruction.opcode.endswith(".end") or index == count
        flags = (
            (index == 1) | last << 1 | ("(short)" in instruction.words) << 2 | ("(narrow)" in instruction.words) << 3
        )
        vectors = [self.operand("V", operand) for operand in instruction.operands[:-1]]
        width = literal(instruction.operands, len(vectors))
        unit, token = unit_number(instruction.unit), self.registers.token(instruction.token)
        self.record(instruction.opcode, *vectors, width, flags | index << 8 | count << 16, unit, token)

    def dma(self, instruction: Instruction) -> None:
        """Its operands in a row of scalar registers."""
        opcode = instruction.opcode
        if opcode.startswith("dma.done"):
            flag, amount = (self.scalar(operand) for operand in instruction.operands[:2])
            self.record(opcode, flag, amount)
            return
        labelled = dict(zip(instruction.labels, instruction.operands, strict=False))
        if unknown := set(labelled) - _DMA_LABELS:
            raise Unsupported(opcode, f"with {', '.join(sorted(unknown))}")
        source, granules, destination, done = instruction.operands[:4]
        strided = "steps_per_stride" in labelled
        general = opcode == "dma.general"
        if general:
            spaces = tuple(self._spaces.get(getattr(operand, "name", ""), "") for operand in (source, destination))
        else:
            spaces = tuple(opcode.removeprefix("dma.").split("_to_"))
        if len(spaces) != 2 or not set(spaces) <= set(_DMA_SPACES):
            raise Unsupported(opcode, f"between {' and '.join(map(repr, spaces))}")
        zero = Immediate(0)
        row = [source, granules, destination, done]
        row += [
            labelled.get(label, zero) for label in ("src_stride", "dst_stride", "steps_per_stride", "stridedescaddr")
        ]
        block = self.registers.block(len(row))
        for place, operand in enumerate(row):
            self.record("mov.s", block + place, self.scalar(operand), predicated=False)
        numbers = [_DMA_SPACES.index(space) for space in spaces]
        other = self.scalar(labelled["src_syncflagno"]) if "src_syncflagno" in labelled else 0
        self.record("dma", block, *numbers, 2 if general else int(strided), other)


_DMA_SPACES = ("hbm", "vmem", "smem", "cmem")
_DMA_LABELS = frozenset(
    ("hbm", "vmem", "smem", "src", "dst", "size_in_granules", "dst_syncflagno", "src_stride", "dst_stride",
     "steps_per_stride", "stridedescaddr", "src_syncflagno", "overrides", "dst_syncflagno_1")
)  # fmt: skip

_HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "vld": Emitter.vector_memory,
    "vld.": Emitter.vector_memory,
    "vst": Emitter.vector_memory,
    "vst.": Emitter.vector_memory,
    "sld": Emitter.scalar_memory,
    "sst": Emitter.scalar_memory,
    "inlined_call_operand": Emitter.call_operand,
    "int_to_ptr.": Emitter.pointer,
    "reloc": Emitter.number,
    "scalar_lea.": Emitter.lea,
    "vxpose.": Emitter.transpose,
    "vmul.u32.u64.compose": Emitter.wide_product,
    "vextract.low.u32": Emitter.extract,
    "vextract.high.u32": Emitter.extract,
    "dma.": Emitter.dma,
}


def _next(letter: str, left: list[Operand]) -> Operand:
    """The next operand that may stand for a letter: a mask stands before the vector that it is for."""
    for place, operand in enumerate(left):
        if (isinstance(operand, Value) and operand.kind == "M") == (letter == "m"):
            return left.pop(place)
    return left.pop(0)


def _is_token(operand: Operand) -> bool:
    return isinstance(operand, Value) and not operand.kind


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def unit_number(unit: str) -> int:
    """Of `mxu2`: 2; of none: 0."""
    return int(unit[-1]) if unit else 0
