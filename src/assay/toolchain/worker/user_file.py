# mypy: ignore-errors
# ruff: noqa: B905
"""A user's Python file -> lowered cases.

The invariant: an error on the user's side comes back as data, with the user's own file and line, and whatever the file
changed in the process is put back before the next one is loaded.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib.util
import inspect
import itertools
import os
import sys
import traceback

from .interpreted import interpreted
from .programs import CALLBACKS, bytecode, computation_of, hlo_text, mlir_text, signature, unoptimized
from .wire import Refused, get_array, numpy_dtype, put_array


class UserFile(Exception):
    """An error in the user's file: `problem` has type, message and where."""

    def __init__(self, found: dict):
        super().__init__(found["message"])
        self.problem = found


def where_in(error: BaseException, path: str) -> str:
    """`file:line` of the innermost frame in the user's file or its folder, else of the raise itself."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    folder = os.path.dirname(os.path.abspath(path)) + os.sep
    for wanted in (os.path.abspath(path), folder):
        for f in reversed(frames):
            if os.path.abspath(f.filename).startswith(wanted) and "site-packages" not in f.filename:
                return f"{f.filename}:{f.lineno}"
    return ""


def problem(error: BaseException, path: str) -> dict:
    kind = error.kind if isinstance(error, Refused) else type(error).__name__
    return {"type": kind, "message": str(error), "where": where_in(error, path)}


@contextlib.contextmanager
def user_file(path: str):
    """The file's module, executed; whatever it changed in the process is put back afterwards, so that a later load of
    another file does not inherit its 64-bit mode, search path, folder or a sibling module of the same name."""
    import jax

    folder = os.path.dirname(os.path.abspath(path))
    config, modules = dict(jax.config.values), set(sys.modules)
    search, cwd, argv = list(sys.path), os.getcwd(), list(sys.argv)
    try:
        sys.path.insert(0, folder)
        sys.argv = [path]
        name = "_assay_" + "".join(c if c.isalnum() else "_" for c in os.path.basename(path))
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None:
            raise Refused("ImportError", f"{path}: not a Python file (.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        if getattr(module, "X64", False):
            jax.config.update("jax_enable_x64", True)
        yield module
    finally:
        for key, value in config.items():
            if jax.config.values.get(key, value) is not value:
                jax.config.update(key, value)
        for key in set(sys.modules) - modules:
            file = getattr(sys.modules[key], "__file__", None) or ""
            if file.startswith(folder + os.sep) and "site-packages" not in file:
                del sys.modules[key]
        sys.path[:], sys.argv = search, argv
        os.chdir(cwd)


def find_function(module, name: str):
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = sorted(k for k, v in vars(module).items() if callable(v) and not k.startswith("_"))
            raise Refused("MissingFunction", f"no function {name} in it; it has: {', '.join(names) or 'none'}")
        found = getattr(found, part)
    if not callable(found):
        raise Refused("MissingFunction", f"{name} is a {type(found).__name__}, not a function")
    return found


def example_arguments(module, name: str, function, arrays):
    """The argument tuple for `function`: from example_args(), its leaves replaced by the host's arrays where given."""
    import jax

    make = getattr(module, "example_args", None)
    if make is not None:
        args = make()
        args = args if isinstance(args, tuple) else (args,)
        if arrays is None:
            return args
        leaves, tree = jax.tree_util.tree_flatten(args)
        if len(leaves) != len(arrays):
            raise Refused("ArgumentCount", f"{name} takes {len(leaves)} arrays, {len(arrays)} were given")
        return jax.tree_util.tree_unflatten(tree, arrays)
    if arrays is not None:
        return tuple(arrays)
    with contextlib.suppress(TypeError, ValueError):
        if not inspect.signature(function).parameters:
            return ()
    raise Refused("MissingArguments", f"no arguments for {name}: define example_args() in the file, or give inputs")


def lower(function, args, platform: str = "cpu"):
    """(lowered, flat arguments). Every argument keeps its parameter, used or not, so that they line up."""
    import jax

    try:
        return lowered_for(platform, jax.jit(function, keep_unused=True), args), jax.tree_util.tree_leaves(args)
    except TypeError:
        if not hasattr(function, "lower"):
            raise
    # A function that is already jitted with static arguments: only its own lower() knows which. The dynamic ones are
    # the choice of positions whose tree is the one it reports; an argument that is no array is static first.
    lowered = lowered_for(platform, function, args)
    wanted = lowered.in_tree
    static_first = sorted(range(len(args)), key=lambda i: hasattr(args[i], "dtype"))
    for count in range(1, len(args) + 1):
        for static in itertools.combinations(static_first, count):
            dynamic = tuple(a for i, a in enumerate(args) if i not in static)
            if jax.tree_util.tree_structure((dynamic, {})) == wanted:
                whole = jax.jit(pinned(function, args, static), keep_unused=True)
                return lowered_for(platform, whole, dynamic), jax.tree_util.tree_leaves(dynamic)
    raise Refused("StaticArguments", "cannot tell which arguments are static; pass a function of arrays only")


def lowered_for(platform: str, jitted, args):
    """What jax lowers for `platform`, whether or not this machine has one: some primitives become other operations."""
    if platform == "cpu":
        return jitted.lower(*args)
    if not hasattr(jitted, "trace"):
        raise Refused("Unsupported", f"this jax lowers for no other platform than its own, so not for {platform}")
    return jitted.trace(*args).lower(lowering_platforms=(platform,))


def pinned(function, args, static):
    def of_dynamic(*dynamic):
        rest = iter(dynamic)
        return function(*[args[i] if i in static else next(rest) for i in range(len(args))])

    of_dynamic.__name__ = getattr(function, "__name__", "function")
    return of_dynamic


def value_of(leaf, kind: dict):
    """The leaf as an array of the parameter's dtype, or None if it is only a shape."""
    import jax
    import numpy as np

    if isinstance(leaf, jax.ShapeDtypeStruct):
        return None
    if "key<" in str(getattr(leaf, "dtype", "")):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).astype(numpy_dtype(kind["dtype"])).reshape(kind["shape"])


def paths_of(tree, leaves: int) -> list:
    import jax

    numbered = jax.tree_util.tree_unflatten(tree, list(range(leaves)))
    if hasattr(jax.tree_util, "tree_flatten_with_path"):
        return [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]]
    return [f"[{i}]" for i in range(leaves)]


def argument_paths(lowered, leaves: int) -> list:
    """Paths of the flat arguments, as positions of the argument tuple: `[0]['w']`."""
    return [path[3:] if path.startswith("[0]") else path for path in paths_of(lowered.in_tree, leaves)]


def expected_leaves(expected, lowered, results: list) -> list:
    """The user's expected arrays, one for each result; ValueError where they do not fit."""
    import jax
    import numpy as np

    if len(results) == 1:
        leaves = jax.tree_util.tree_leaves(expected) if isinstance(expected, (tuple, dict)) else [expected]
    else:
        leaves = jax.tree_util.tree_leaves(expected)
    if len(leaves) != len(results):
        raise ValueError(f"expected has {len(leaves)} arrays, the function returns {len(results)}")
    arrays = [np.asarray(leaf) for leaf in leaves]
    for i, (array, result) in enumerate(zip(arrays, results)):
        if list(array.shape) != result["shape"]:
            raise ValueError(f"expected[{i}] has shape {array.shape}, the function returns {tuple(result['shape'])}")
    return arrays


def load_case(case: dict, function, args, expected, has_expected: bool, blobs: list, live: set, platform: str) -> None:
    """Fill `case` with the lowered program, its arguments, results and expectation."""
    lowered, leaves = lower(function, args, platform)
    module = bytecode(lowered)
    text = mlir_text(module)
    if any(name in text for name in CALLBACKS):
        live.add(hash(module))
    hlo = unoptimized(module, "stablehlo")
    parameters, results = signature(computation_of(hlo))
    if len(parameters) != len(leaves):
        raise Refused("ArgumentCount", f"{len(leaves)} arguments, but {len(parameters)} parameters")
    case["arguments"] = []
    for path, leaf, kind in zip(argument_paths(lowered, len(leaves)), leaves, parameters):
        value = value_of(leaf, kind)
        described = dict(kind, blob=None) if value is None else put_array(value, blobs)
        case["arguments"].append(dict(described, path=path, weak=isinstance(leaf, (bool, int, float, complex))))
    output_paths = paths_of(lowered.out_tree, lowered.out_tree.num_leaves)
    case["results"] = [dict(r, path=p) for r, p in zip(results, output_paths)]
    blobs.append(module)
    case["stablehlo"] = len(blobs) - 1
    blobs.append(hlo_text(hlo).encode())
    case["hlo"] = len(blobs) - 1
    if "tpu_custom_call" in text:
        try:
            plain = unoptimized(bytecode(interpreted(function, args, platform)), "stablehlo")
            if signature(computation_of(plain)) == (parameters, results):
                blobs.append(hlo_text(plain).encode())
                case["plain"] = len(blobs) - 1
        except Exception as e:  # the kernels stay what they are
            case["plain_error"] = f"{type(e).__name__}: {e}"
    if has_expected:
        try:
            case["expected"] = [put_array(a, blobs) for a in expected_leaves(expected, lowered, results)]
        except (TypeError, ValueError) as e:
            case["expected_error"] = str(e)


def cases_of(module, header: dict, arrays):
    """Yield (name, function, args, expected, has_expected)."""
    if header["function"]:
        function = find_function(module, header["function"])
        yield header["function"], function, example_arguments(module, header["function"], function, arrays), None, False
        return
    if header["filter"] == [""]:
        return  # no case is asked for, and there need be none
    if not hasattr(module, "cases"):
        raise Refused("MissingFunction", "no cases() in it; name a function of it as FILE:FUNCTION")
    made = module.cases()
    if not hasattr(made, "__iter__"):
        raise Refused("BadCase", f"cases() gives {type(made).__name__}, not a list of (name, function, arguments)")
    for number, case in enumerate(made):
        if not isinstance(case, tuple) or len(case) not in (3, 4):
            raise Refused("BadCase", f"case {number} of cases() is not (name, function, arguments, expected)")
        name, function, args = case[:3]
        args = args if isinstance(args, (tuple, list)) else (args,)
        if not header["filter"] or any(fnmatch.fnmatchcase(str(name), pattern) for pattern in header["filter"]):
            expected = case[3] if len(case) == 4 else None
            yield str(name), function, tuple(args), expected, expected is not None


def load(state: dict, header: dict, blobs: list):
    import jax

    path = header["path"]
    arrays = None if header["arrays"] is None else [get_array(spec, blobs) for spec in header["arrays"]]
    cases, out = [], []
    try:
        with user_file(path) as module:
            reply = {"x64": bool(jax.config.jax_enable_x64), "rtol": getattr(module, "RTOL", None)}
            found = cases_of(module, header, arrays)
            while True:
                try:
                    name, function, args, expected, has_expected = next(found)
                except StopIteration:
                    break
                except Exception as e:
                    if header["function"] or (isinstance(e, Refused) and not cases):
                        raise
                    cases.append({"name": "cases()", "error": problem(e, path)})
                    break
                case = {"name": name, "error": None}
                try:
                    live = state["callbacks"]
                    load_case(case, function, args, expected, has_expected, out, live, header["platform"])
                except Exception as e:
                    case = {"name": name, "error": problem(e, path)}
                cases.append(case)
    except (Exception, SystemExit) as e:
        raise UserFile(problem(e, path)) from e
    return dict(reply, cases=cases), out
