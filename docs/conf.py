"""Sphinx: the pages of this folder become the site in docs/_build (`make docs`)."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "extensions")]

import gsdm_pyg  # noqa: E402

project = "gsdm_pyg"
version = release = gsdm_pyg.__version__
author = project_copyright = "The gsdm_pyg developers"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docstrings",
    "mathml",
    "root_files",
]
exclude_patterns = ["_build", "extensions"]

# Pages with `{code-cell}` are executed, each in a process of its own. kernel.py takes
# it to the root folder, where the commands of all pages are run.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # as `gsdm train` does
os.environ["PYTHONSTARTUP"] = str(DOCS / "extensions" / "kernel.py")
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds of one cell, on a busy machine
nb_merge_streams = True
nb_output_stderr = "remove"  # notices of the machine at hand
myst_heading_anchors = 3

default_role = "code"  # docstrings write names in single backticks
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 70
python_display_short_literal_types = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "gsdm_pyg"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
