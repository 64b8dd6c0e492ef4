"""Runs first in the process that executes a page: the root folder, figures in it."""

import os
import sys
from pathlib import Path

from IPython import get_ipython

ROOT = Path(__file__).parents[2]
os.chdir(ROOT)
sys.path[:0] = [str(ROOT)]
get_ipython().run_line_magic("matplotlib", "inline")
