"""`python -m gsdm_pyg`: see `gsdm_pyg.cli`."""

from gsdm_pyg.cli import main

main()
