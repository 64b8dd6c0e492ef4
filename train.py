"""Train a config: `python train.py configs/bcmf_varsize.yaml [model.layers=6 ...]`.

The same as `python -m gsdm_pyg train`; `--help` lists the options.
"""

import os
import sys

# Waiting threads sleep instead of spinning: spinning costs a factor of ten or more
# where other programs want a core too. To be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from gsdm_pyg.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
