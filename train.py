"""Train a config: `python train.py configs/bcmf_varsize.yaml [model.layers=6 ...]`.

`python -m gsdm_pyg train` does the same; `--help` lists the options.
"""

import os
import sys

# Waiting threads sleep instead of spinning, which would hold up every other program
# on a small machine, and these the threads. To be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from gsdm_pyg.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
