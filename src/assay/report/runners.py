"""The helpers that an emitted test carries: how it has its program compiled and run.

Lines of Python that import only jax, numpy and the standard library. Known: jaxlib's bindings moved from xla_extension
to _jax and _hlo, and `compile` became `compile_and_load` (0.4.30 to 0.12.0.1). A module that a TPU's compiler made can
take the place of XLA:CPU's own before that is scheduled (jax 0.10.2 and later), the order of dimensions in memory as it
is: tiles and memory spaces must be gone, fusions be calls, and nothing be asynchronous. XLA:CPU then has no kernel for
a scatter, and makes nothing good of operations that take f32 and give bf16, which libtpu likes.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import Unsupported
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, leaves


@dataclass(frozen=True, slots=True)
class Helpers:
    """imports: modules of the standard library. froms: `from` lines. lines: of Python, two empty ones between
    functions.
    """

    imports: frozenset[str] = frozenset()
    froms: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


XLA = (
    "def xla(name):",
    '    """A binding of jaxlib, which has moved them about."""',
    '    names = [f"jaxlib.{n}" for n in ("_hlo", "_jax", "xla_extension") if importlib.util.find_spec(f"jaxlib.{n}")]',
    "    return next(getattr(m, name) for m in map(importlib.import_module, names) if hasattr(m, name))",
)


def run(options: str) -> tuple[str, ...]:
    """The function that runs HLO text on XLA:CPU. options: Python text of pairs."""
    return (
        "def run(text, *arguments):",
        '    """The outputs of HLO text, compiled by XLA:CPU."""',
        '    proto = xla("hlo_module_from_text")(text).as_serialized_hlo_module_proto()',
        '    module = xla("mlir").xla_computation_to_mlir_module(xla("XlaComputation")(proto))',
        '    device, options = jax.devices("cpu")[0], xla("CompileOptions")()',
        f"    options.env_option_overrides = {options}",
        '    if hasattr(device.client, "compile_and_load"):',
        '        program = device.client.compile_and_load(module, xla("DeviceList")((device,)), options)',
        "    else:",
        "        program = device.client.compile(module, options)",
        "    return program.execute([jax.device_put(a, device) for a in arguments])",
    )


def on_cpu(options: str) -> Helpers:
    """For HLO text."""
    return Helpers(frozenset(("importlib.util",)), (), (*XLA, "", "", *run(options)))


_CALLS = {
    "X64SplitLow": "real",
    "X64SplitHigh": "imag",
    "X64Combine": "complex",
    "AssumeGatherIndicesInBound": "copy",
    "AllocateBuffer": "iota",
}
"""Custom calls by which libtpu writes plain functions, the first three of complex numbers, and memory that is written
before it is read.
"""
_CALL = r"""    text = re.sub(r'custom-call\((.*?)\), custom_call_target="%s".*', r"%s(\1)%s", text)"""

_ROUNDED = (
    """    text = text.replace("bf16[", "f32[")  # of what is multiplied; XLA:CPU mixes no types in one operation"""
)

_CARRIED = (
    r"""    text = re.sub(r"(?m)^ +(\S+) = ([^( ]+) (get-tuple-element\(.*)", """
    r"""r"  \1.g = \2 \3\n  \1 = \2 copy(\1.g)", text)"""
)
"""A loop's values are written where they lie, in an order that was the TPU's: they are read once, before that."""

_NARROW = (
    r"""    narrow, lines = set(re.findall(r"(\S+) = [su](?:8|16)\[\]", text)), []""",
    r"""    for k, line in enumerate(text.splitlines()):  # XLA:CPU clamps starts in their own type""",
    r"""        for n in narrow & set(re.findall(r"[\w.-]+", line.partition(" dynamic-")[2])):""",
    r"""            lines.append(f"{n}.{k} = s32[] convert({n})")""",
    r"""            line = re.sub(rf"(?<![\w.-]){re.escape(n)}(?=[,)])", f"{n}.{k}", line)""",
    r"""        lines.append(line)""",
    r"""    text = "\n".join(lines)""",
)


def compiles(topology: str, compile_options: str) -> Helpers:
    """For the function `program` and a TPU that is not there: no more than the compilation."""
    return Helpers(
        frozenset(("os",)),
        ("from jax.experimental import topologies",),
        (
            "def on_cpu(*arguments):",
            '    """Ahead of time, with libtpu; nothing is run."""',
            *_compiled(topology, compile_options),
        ),
    )


def _compiled(topology: str, compile_options: str) -> tuple[str, ...]:
    return (
        f'    topology = topologies.get_topology_desc(platform="tpu", topology_name="{topology}")',
        "    tpu = jax.sharding.SingleDeviceSharding(topology.devices[0])",
        "    traced = jax.jit(program, in_shardings=tpu, out_shardings=tpu, keep_unused=True).trace(*arguments)",
        f'    compiled = traced.lower(lowering_platforms=("tpu",)).compile({compile_options}).runtime_executable()',
    )


def ahead_of_time(module: Module, topology: str, compile_options: str) -> Helpers:
    """For the function `program` and a TPU that is not there. Raises Unsupported for element types of 64 bits, which
    libtpu makes of two.
    """
    shapes = [s for c in module.computations for i in c.instructions for s in leaves(i.shape)]
    dtypes = {s.dtype for s in shapes if isinstance(s, ArrayShape)}
    if any((d.bits == 64 and not d.is_complex) or d.bits == 128 for d in dtypes):
        raise Unsupported("a test of 64-bit numbers for a TPU that is not there")
    calls = [name for name in _CALLS if name.startswith("X64")] if any(d.is_complex for d in dtypes) else []
    opcodes = {i.opcode for c in module.computations for i in c.instructions}
    calls += ["AssumeGatherIndicesInBound"] if "gather" in opcodes else []
    calls += ["AllocateBuffer"] if "while" in opcodes else []
    lines = (
        "def on_cpu(*arguments):",
        '    """What libtpu makes of the program ahead of time, run by XLA:CPU in place of what its passes make."""',
        *_compiled(topology, compile_options),
        "    text = compiled.hlo_modules()[0].to_string(_hlo.HloPrintOptions.short_parsable())",
        r"""    text = re.sub(r"(\{[\d,]+):[^}]*|\{:[^}]*\}|, (is_)?cross_program\w+=\w+", r"\1", text)""",
        r"""    text = re.sub(r"fusion\((.*?)\), kind=\w+, calls=", r"call(\1), to_apply=", text)""",
        *(_CALL % (name, _CALLS[name], ", iota_dimension=0" * (_CALLS[name] == "iota")) for name in calls),
        r"""    began = {n: op + rest for n, op, rest in re.findall(r"(\S+) = .* ([\w-]+)-start(\(.*)", text)}""",
        r"""    text = re.sub(r"(?m)^.* [\w-]+-start\(.*\n", "", text)""",
        r"""    text = re.sub(r"[\w-]+-done\(([^)]+)\).*", lambda m: began[m[1]], text)""",
        *(_NARROW if any(d.is_integer and d.bits in (8, 16) for d in dtypes) else ()),
        *((_CARRIED,) if {"while", "scatter"} & opcodes else ()),
        *((_ROUNDED,) if "convolution" in opcodes and not any(d.name == "bf16" for d in dtypes) else ()),
        "    modules = [_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()]",
        '    where = {"name": "libtpu", "stage": xla.PipelineStage.PRE_SCHEDULER, "platforms": "cpu"}',
        "    xla.register_hlo_module_transformation(lambda _: (modules or [None]).pop(), **where)",
        "    compiled = jax.jit(program, keep_unused=True).lower(*arguments).compile()",
        "    xla.clear_hlo_module_transformation(**where)",
        "    return compiled(*arguments)",
    )
    froms = ("from jax.experimental import topologies", "from jax.extend import xla", "from jaxlib import _hlo")
    return Helpers(frozenset(("os", "re")), froms, lines)
