"""How Sphinx builds the documentation: ``python -m sphinx -W --keep-going -n docs docs/_build``."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any

# The gallery runs on the host; without this, jax looks for other devices and says so.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

project = "seqarray"
author = "the seqarray developers"
project_copyright = "the seqarray developers"
version = release = importlib.metadata.version("seqarray")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery", "examples", "pictures"]
nitpicky = True
# References to other projects are not looked up: a build needs no network.
nitpick_ignore_regex = [
    ("py:.*", rf"{name}(\..*)?")
    for name in (
        *("numpy", "torch", "jax", "dask", "cupy", "onnx", "onnxruntime", "pickle", "copy", "array"),
        *("collections", "threading", "os", "sys", "abc", "types", "typing", "concurrent"),
    )
]
# Type variables and the protocol of array likes have no page: the docstrings say what they stand for.
nitpick_ignore = [
    ("py:class", name)
    for name in (
        *("seqarray._typing.ArrayT", "seqarray._typing.ResultT", "seqarray._typing.SupportsArray"),
        *("seqarray._sequence.ArrayT_co", "seqarray.onnx.backend.SeqarrayRep"),
    )
]

# Names in single backticks are references where there is such a name, and literal text otherwise.
default_role = "autolink"
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = f"seqarray {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "seqarray"},
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars: dict[str, list[str]] = {"changelog": [], "contributing": []}


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "min_reported_time": 10_000,
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
}
