"""Train a config: `python train.py configs/bcmf_varsize.yaml [model.layers=6 ...]`.

`python -m gsdm_pyg train` does the same; `--help` lists the options.
"""

import sys

from gsdm_pyg.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
