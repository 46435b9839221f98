"""The kernels that a user names: of a program that is compiled for it, of a folder of LLO dumps, or one dump alone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from assay.checking import api
from assay.checking.api import Request
from assay.checking.bounds import Step
from assay.emit import Order, emit
from assay.errors import AssayError, InputError, ReferenceLimit, Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.inputs.arguments import load_arguments
from assay.inputs.generate import generate
from assay.llo import native
from assay.llo.code import Code
from assay.llo.diff import Given, KernelDiff, diff_kernel
from assay.llo.files import FINAL, ORIGINAL, Dump, KernelFiles, Stage, read_dump
from assay.llo.generation import generation_of, refuse_other
from assay.llo.interpret import Watch
from assay.llo.kernel import LIMIT, run, same
from assay.llo.listing import load, read
from assay.llo.lowering import lower
from assay.llo.machine import OPERAND_UNIT, Trap
from assay.llo.module import Value, pairs, run_module
from assay.llo.operands import Operands, operands_of, scheduled_module
from assay.llo.text import parse
from assay.llo.trace import trace_of
from assay.reference.policies import for_target
from assay.reference.value import Array
from assay.report.llo_run import RunReport
from assay.report.llo_trace import page
from assay.targets.dumps import LIMIT_BYTES, scratch

ALL_PASSES = "."
_LLO = re.compile(r"\s*(?:// \[Enable|\$region\d|= control target key|(?:0x[0-9a-f]+|\d+)(?: +\w\w)?\s*:\s+(?:> *)*\{)")


@dataclass(frozen=True, slots=True)
class Dumped:
    """One program's kernels. chosen: the stage of a kernel that was named as a file; None for all. hlo: the file with
    its module, where the user named one. problem: why there are none; found: whether that is a finding.
    """

    name: str
    dump: Dump
    chosen: Stage | None = None
    hlo: Path | None = None
    problem: str = ""
    found: bool = False

    def module(self) -> Module:
        """The HLO with the layouts of the kernels' operands. Raises InputError, HloSyntaxError."""
        return scheduled_module(self.dump.folder, self.hlo)

    def matching(self, kernel: str | None) -> list[KernelFiles]:
        """Those whose name, or that of an instruction that shares them, matches a glob. Raises InputError for none."""
        if kernel is None:
            return list(self.dump.kernels.values())
        found = [files for name, files in self.dump.kernels.items() if fnmatchcase(name, kernel)]
        shared = self.dump.kernel(kernel)
        if not found and shared is None:
            have = list(self.dump.kernels)
            more = f" and {len(have) - 8} more" if len(have) > 8 else ""
            raise InputError(f"{self.name} has no kernel {kernel}: there is {', '.join(have[:8])}{more}")
        return found or [files for files in (shared,) if files is not None]

    def only(self, files: KernelFiles) -> KernelFiles:
        """With the one stage that was named, if one was."""
        return files if self.chosen is None else KernelFiles(files.name, (self.chosen,))

    def one(self, kernel: str | None) -> KernelFiles:
        """The kernel named, or the only one. Raises InputError where there are several."""
        found = self.matching(kernel)
        if len(found) > 1:
            names = ", ".join(files.name for files in found[:8])
            more = f" and {len(found) - 8} more" if len(found) > 8 else ""
            raise InputError(f"{self.name} has {len(found)} kernels: name one with --kernel: {names}{more}")
        return found[0]


@contextmanager
def opened(
    source: str,
    request: Request,
    passes: str = ALL_PASSES,
    hlo: Path | None = None,
    step: Step = lambda _: None,
    dump_limit: int = LIMIT_BYTES,
) -> Iterator[tuple[str, list[Dumped]]]:
    """(the toolchain's versions, empty for dumps; the kernels of each program). passes: the LLO passes to dump, where
    `source` is compiled. Raises AssayError where it cannot begin.
    """
    generation(request)
    path = Path(source)
    if path.is_dir() and not any(path.iterdir()):
        read_dump(path)  # says what is needed
    if path.is_dir() and (folders := _dumps(path)):
        yield "", [Dumped(_name(folder, path), read_dump(folder), hlo=hlo) for folder in folders]
    elif path.is_file() and is_llo(path):
        yield "", [_alone(path, hlo)]
    else:
        with scratch() as folder:
            order = Order(("llo",), folder / "out", passes, dump_limit)
            versions, done = emit(source, request, order, step)
            yield versions, [_compiled(e.name, [p for _, p, _ in e.files], e.problem, e.found, passes) for e in done]


def generation(request: Request) -> str:
    """`v5e` of the target `tpu:v5e`. Raises InputError for one without LLO or without a model."""
    found = api.generation_of(request.target)
    if found is None:
        raise InputError(f"--target {request.target}: only a TPU's compiler has LLO; name one such as tpu:v5e")
    if found not in OPERAND_UNIT:
        raise InputError(f"--target {request.target}: the simulator has {', '.join(f'tpu:{g}' for g in OPERAND_UNIT)}")
    return found


def _compiled(name: str, folders: list[Path], problem: str, found: bool, passes: str) -> Dumped:
    if not problem:
        try:
            return Dumped(name, read_dump(folders[0]))
        except InputError:
            problem = "it has no kernels"
            if any(folders[0].iterdir()):
                labels = f"{ORIGINAL}, post-GVN or {FINAL}"
                problem = (
                    f"nothing was dumped after {passes!r}: --llo-passes takes labels of LLO passes such as {labels}"
                )
    return Dumped(name, Dump(Path(), {}, {}), problem=problem, found=found)


def _dumps(folder: Path) -> list[Path]:
    """Folders of LLO that a folder is, or has, as `assay compile` writes them; none where it is a program's."""
    for found in ([folder], sorted(p for p in folder.iterdir() if p.is_dir())):
        places = [place for one in found for place in (one / "llo", one / "bundles", one) if _has_kernels(place)]
        if places:
            return [place for place in places if place.name != "bundles" or place.parent / "llo" not in places]
    return []


def _has_kernels(folder: Path) -> bool:
    return folder.is_dir() and any(re.match(r"\d+-.+-\d\d+-.+\.txt", path.name) for path in folder.iterdir())


def _name(folder: Path, root: Path) -> str:
    return str(root) if folder in (root, root / "llo", root / "bundles") else folder.parent.name


def is_llo(path: Path) -> bool:
    """Whether a file is a dump of LLO, by how it begins."""
    try:
        with path.open(encoding="utf-8") as file:
            return _LLO.match(file.read(400)) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _alone(path: Path, hlo: Path | None) -> Dumped:
    """A kernel by one of its files: with its other stages where these lie beside it under libtpu's names."""
    try:
        dump = read_dump(path.parent)
        for files in dump.kernels.values():
            for stage in files.stages:
                if stage.path == path:
                    return Dumped(str(path), Dump(dump.folder, {files.name: files}, dump.same), stage, hlo)
    except InputError:
        pass  # a file that was renamed, in a folder of its own
    with path.open(encoding="utf-8") as file:
        regions = file.read(400).lstrip().startswith(("//", "$region"))
    stage = Stage(0, ORIGINAL if regions else FINAL, path)
    files = KernelFiles(path.stem, (stage,))
    return Dumped(str(path), Dump(path.parent, {files.name: files}, {}), stage, hlo)


# ---- running


def execute(
    dumped: Dumped,
    request: Request,
    kernel: str | None,
    which: str | None,
    limit: int = LIMIT,
    traced: bool = False,
    step: Step = lambda _: None,
) -> tuple[RunReport, str]:
    """Runs one stage of one kernel on the request's inputs, or on drawn ones; and, where it is to be traced, the page
    that shows it. Raises AssayError.
    """
    files, stage = _stage(dumped, kernel, which)
    loaded = load(files, stage)
    refuse_other(loaded.kernel, generation(request))
    operands = operands_of(dumped.module(), _instruction(dumped, files, kernel), dumped.dump.same)
    try:
        trace = trace_of(loaded) if traced else None
        code = lower(loaded.kernel, loaded.declared) if trace is None else trace.code
    except Unsupported as missing:
        at = f"{stage.path}: {files.name} at {stage.number:02d} {stage.label}"
        why = f"the simulator has no meaning for it; {at} cannot be run, --stage names another"
        raise Unsupported(str(missing), why) from missing
    given = inputs_of(operands, request)
    result = run(
        code,
        generation(request),
        list(zip(operands.inputs, given.arrays, strict=True)),
        operands.outputs,
        operands.shared,
        engine=native.watched(told(step)) if trace is None else trace.engine,
        limit=limit,
    )
    if trace is not None:
        result = trace.told(result)
    report = RunReport(
        operands.name,
        f"{stage.number:02d} {stage.label}",
        dumped.name,
        request.target,
        given.label,
        "NumPy" if trace is not None or native.missing() else "C",
        tuple(zip(operands.outputs, result.outputs, strict=True)) if result.stop is None else (),
        result.steps,
        result.left,
        result.flying,
        result.stop,
        result.words,
    )
    return report, "" if trace is None else page(report, loaded.kernel, trace)


def told(step: Step) -> Watch:
    """Tells how far a kernel is."""
    return lambda kernel, steps: step(f"{kernel}: {steps} instructions")


def _stage(dumped: Dumped, kernel: str | None, which: str | None) -> tuple[KernelFiles, Stage]:
    if dumped.chosen is None:
        files = dumped.one(kernel)
        return files, files.stage(which or ORIGINAL)
    files = dumped.one(None)
    return files, dumped.chosen if which is None else files.stage(which)


def _instruction(dumped: Dumped, files: KernelFiles, kernel: str | None) -> str:
    """The HLO instruction to take the operands of; for a file alone `--kernel` says which."""
    return kernel if kernel is not None and (dumped.chosen is not None or kernel in dumped.dump.same) else files.name


def inputs_of(operands: Operands, request: Request) -> Given:
    """The request's inputs, or some that are drawn for this kernel alone. Raises InputError."""
    if request.inputs is not None:
        arrays = load_arguments(request.inputs, operands.alone)
        return Given(str(request.inputs), tuple(map(same, arrays)))
    if not operands.inputs:
        return Given("no inputs", ())
    return Given(f"normal, seed {request.seed}", tuple(map(same, generate(operands.alone, request.seed))))


# ---- comparing stages

CLASSES = ("normal", "normal", "log-uniform", "stamps")
SETS = 8
"""Sets of inputs, of these classes in turn: a maximum, say, hides a wrong row from most inputs."""
ALONE = ("normal", "stamps")
"""Classes of the sets that are drawn for a kernel alone; one where a program is run on few."""
FEW, MORE_S, MORE_BYTES = 2, 10.0, 1 << 30
"""After so many sets no more are made where a program takes longer, or its kernels' inputs more memory; unless the
number was asked for.
"""


@dataclass(slots=True)
class Handed:
    """What a program hands to its kernels when it runs: for each kernel the instruction that ran it first, and its
    inputs.
    """

    dump: Dump
    wanted: set[str]
    label: str = ""
    instructions: dict[str, str] = field(default_factory=dict)
    found: dict[str, list[Given]] = field(default_factory=dict)
    size: int = 0

    def __call__(
        self, computation: Computation, instruction: Instruction, operands: Sequence[Value], value: Value
    ) -> None:
        files = self.dump.kernel(instruction.name)
        if files is None or files.name not in self.wanted:
            return
        sets = self.found.setdefault(files.name, [])
        if self.instructions.setdefault(files.name, instruction.name) == instruction.name and (
            not sets or sets[-1].label != self.label
        ):
            given = Given(self.label, tuple(pair for operand in operands for pair in pairs(operand)))
            sets.append(given)
            self.size += sum(pair.first.nbytes for pair in given.arrays)


def diff(
    dumped: Dumped,
    request: Request,
    kernel: str | None,
    limit: int,
    deadline: float | None,
    step: Step,
    sets: int | None = None,
) -> list[KernelDiff]:
    """Every kernel that matches, through all its stages, on what the program hands to it when its kernels run one after
    the other at their first stage. request.inputs are the program's. What hinders one kernel is told of it. Raises
    InputError where nothing matches, where there is no HLO, and where the inputs do not fit.
    """
    chosen = dumped.matching(kernel)
    _refuse_headless(dumped)
    _refuse_other(dumped.dump, generation(request))
    module = dumped.module()
    given, missing = handed(dumped, module, request, {files.name for files in chosen}, limit, deadline, step, sets)
    found = []
    for files in chosen:
        inputs = given.found.get(files.name)
        if inputs is None:
            why = missing.get(files.name) or missing.get("") or "no instruction of the module ran it"
            found.append(KernelDiff(files.name, "unverified", why, (), None, 0, 0, 0.0))
            continue
        operands = operands_of(module, given.instructions[files.name])
        found.append(
            diff_kernel(files, operands, inputs, generation(request), limit=limit, deadline=deadline, step=step)
        )
    return found


def _refuse_headless(dumped: Dumped) -> None:
    """Raises InputError where a kernel has no first stage, for all run at theirs."""
    for files in dumped.dump.kernels.values():
        if all(stage.label != ORIGINAL for stage in files.stages):
            have = ", ".join(f"{stage.number:02d} {stage.label}" for stage in files.stages[:3])
            raise InputError(
                f"{dumped.name}: {files.name} has {have} and no {ORIGINAL}, from which stages are compared: dump all "
                "with assay compile --emit llo --llo-passes ."
            )


def _refuse_other(dump: Dump, wanted: str) -> None:
    """By the first kernel that says which TPU it was compiled for. Raises InputError where that is another."""
    for files in dump.kernels.values():
        path = next((s.path for s in files.stages if s.label == ORIGINAL), files.stages[0].path)
        try:
            text = read(path)
            if "inlined_call_operand.hbm" not in text and " = vmatprep." not in text:
                continue
            kernel = parse(text, str(path), files.name)
        except AssayError:
            continue  # told where the kernel is run
        refuse_other(kernel, wanted)
        if generation_of(kernel) is not None:
            return


def handed(
    dumped: Dumped,
    module: Module,
    request: Request,
    wanted: set[str],
    limit: int,
    deadline: float | None,
    step: Step,
    sets: int | None = None,
) -> tuple[Handed, dict[str, str]]:
    """What kernels are handed, on so many sets of inputs; why some are not reached, by kernel, and by the empty name
    for all that are not.
    """
    found = Handed(dumped.dump, wanted)
    missing: dict[str, str] = {}
    codes: dict[str, Code] = {}

    def check() -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise ReferenceLimit("out of time before the kernel was reached")

    def watch(kernel: str, steps: int) -> None:
        step(f"{dumped.name}: {kernel} ({found.label}), {steps} instructions")
        check()

    native.missing()  # makes the engine, where it is not there yet: not the program's time
    start = time.monotonic()
    for number, (found.label, arguments) in enumerate(_arguments(module, request, sets or SETS)):
        if sets is None and number >= FEW and (time.monotonic() - start > MORE_S or found.size > MORE_BYTES):
            break
        step(f"{dumped.name}: what its kernels are handed ({found.label})")
        try:
            ran = run_module(
                module,
                dumped.dump,
                arguments,
                generation(request),
                for_target(request.target),
                engine=native.watched(watch),
                limit=limit,
                codes=codes,
                on_kernel=found,
                deadline=check,
            )
        except InputError:
            raise
        except AssayError as error:
            missing[""] = f"the program does not run as far as this kernel: {error}"
            break
        for entry in ran.kernels:
            files = dumped.dump.kernel(entry.name)
            if files is not None and entry.kind not in ("simulated", "unwritten"):
                more = "; --limit allows more" if entry.stop and entry.stop.trap is Trap.STEP_LIMIT else ""
                missing.setdefault(files.name, f"{entry.kind} at its first stage: {entry.why}{more}")
    if request.inputs is None and found.size <= MORE_BYTES:
        for name, given in found.found.items():
            given.extend(_alone_too(operands_of(module, found.instructions[name], dumped.dump.same), request, given))
    return found, missing


def _alone_too(operands: Operands, request: Request, given: Sequence[Given]) -> Iterator[Given]:
    """Sets drawn for the kernel alone, where any numbers do: no program shows what a stage makes of an operand that it
    hands over as zeros. Integers may be indices, in a range that a stage may rely on.
    """
    if all(shape.dtype.is_float for shape in operands.inputs) and any(
        pair.unwritten is None for one in given for pair in one.arrays
    ):
        for name in ALONE[: max(1, len(given) // FEW)]:
            arrays = generate(operands.alone, request.seed, name)
            yield Given(f"drawn for the kernel alone: {name}, seed {request.seed}", tuple(map(same, arrays)))


def _arguments(module: Module, request: Request, sets: int) -> Iterator[tuple[str, list[Array]]]:
    if request.inputs is not None:
        yield str(request.inputs), load_arguments(request.inputs, module)
        return
    if not module.entry.parameters:
        yield "no inputs", []
        return
    for number in range(sets):
        name, seed = CLASSES[number % len(CLASSES)], request.seed + number
        yield f"{name}, seed {seed}", generate(module, seed, name)
