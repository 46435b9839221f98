"""A small campaign against a compiler that is wrong on purpose: STORE SEED PROGRAMS. Prints its report."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from assay.campaign.api import Options, Watch, fuzz
from assay.campaign.follow import Limits
from assay.campaign.settings import Settings
from assay.report.campaign import as_json

OPS = "sub neg mul max abs transpose reshape rev add min sign squeeze expand_dims concatenate pad slice not"


def main(store: str, seed: str, programs: str) -> None:
    os.environ["WRONG_PASS"] = "minus"
    wrong = str(Path(__file__).parents[1] / "checking" / "wrong_compilers.py")
    settings = Settings(int(seed), "cpu", batch=4, epoch=4, operations=(1, 2), ops=tuple(OPS.split()), preload=wrong)
    options = Options(programs=int(programs), jobs=2, resume=True, limits=Limits(reduce_s=4, loud_s=4, kept=2))
    quiet = Watch(lambda settings, progress: None, lambda progress: None, lambda finding: None)
    print(as_json(fuzz([settings], store, options, quiet)))


if __name__ == "__main__":
    main(*sys.argv[1:])
