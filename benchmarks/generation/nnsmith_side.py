"""NNSmith's half, run by the Python that it is installed in: prints one line of JSON.

Models are made as `nnsmith.fuzz` makes them, for TensorFlow with XLA on the CPU. `sample`: generation alone; TensorFlow
builds each model once, uncounted, to see that it is valid. `test`: generation, oracle, XLA and
comparison, as its fuzzer counts a test.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
logging.disable(logging.CRITICAL)


def main() -> None:
    mode, nodes, seconds, most = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    from nnsmith.abstract.extension import activate_ext
    from nnsmith.backends.factory import BackendFactory
    from nnsmith.graph_gen import model_gen
    from nnsmith.materialize import Model, TestCase
    from nnsmith.narrow_spec import auto_opset

    kind = Model.init("tensorflow", backend_target="cpu")
    kind.add_seed_setter()
    factory = BackendFactory.init("xla", target="cpu", optmax=True)
    opset = auto_opset(kind, factory, vulops=False)
    activate_ext(opset=opset, factory=factory)
    random.seed(1)
    spent = spent_cpu = 0.0
    made = reported = failed = dims = large = 0
    begin = time.time()
    while time.time() - begin < seconds:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            generated = model_gen(
                opset=opset, method="symbolic-cinit", seed=random.getrandbits(32), max_elem_per_tensor=most,
                max_nodes=nodes, timeout_ms=10000, rank_choices=None, dtype_choices=None,
            )  # fmt: skip
            graph = generated.make_concrete()
        except Exception:
            failed += 1
            continue
        if mode == "sample":
            spent, spent_cpu = spent + time.perf_counter() - wall, spent_cpu + time.process_time() - cpu
        model = kind.from_gir(graph)
        model.refine_weights()
        oracle = model.make_oracle()
        if mode == "test":
            result = factory.checked_compile_and_exec(TestCase(model, oracle))
            reported += (
                not isinstance(result, dict) or factory.verify_results(result, TestCase(model, oracle)) is not None
            )
            spent, spent_cpu = spent + time.perf_counter() - wall, spent_cpu + time.process_time() - cpu
        for tensor in graph.vars.values():
            dims += len(tensor.shape)
            large += sum(d >= 127 for d in tensor.shape)
        made += 1
    told = {"made": made, "failed": failed, "seconds": spent, "cpu": spent_cpu, "reported": reported}
    print(json.dumps(told | {"dims": dims, "large": large}))


if __name__ == "__main__":
    main()
