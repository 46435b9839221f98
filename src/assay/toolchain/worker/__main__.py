# mypy: ignore-errors
"""python worker/ CONTROL_FD. Loads this folder under a name of its own, so that it shadows nobody's modules."""

import sys

sys.path.pop(0)

import importlib.util
import os
import socket

folder = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location(
    "_assay_worker", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
sys.modules["_assay_worker"] = importlib.util.module_from_spec(spec)

if __name__ == "__main__":
    from _assay_worker.server import server

    server(socket.socket(fileno=int(sys.argv[1])))
