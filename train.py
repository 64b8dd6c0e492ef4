"""Train a config: `python train.py configs/bcmf_varsize.yaml [model.layers=6 ...]`.

`python -m gsdm_pyg train` does the same; `--help` lists the options.
"""

import os
import sys

# Idle threads of libgomp spin briefly and then sleep: spinning for long, its default,
# holds up other programs on a small machine, and these the threads. To be set before
# torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

from gsdm_pyg.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
