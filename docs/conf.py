"""How the site is built: `make docs` writes it to build/site, and nothing in it needs a network."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import bayespca

HERE = Path(__file__).parent

project = "bayespca"
author = "bayespca developers"
copyright = "bayespca developers"
version = release = bayespca.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# The gallery writes notebooks and code beside its pages; the page of the papers' report is one
# file that stands alone.
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.py", "reproduction.html"]
# `name` in a docstring is a link where there is such a name, and code elsewhere.
default_role = "py:obj"
# Quotes in options are those of Python.
smartquotes = False

# --- Markdown ----------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "amsmath", "html_image", "deflist"]
# Headings can be linked to by the names that repository views give them.
myst_heading_anchors = 4
myst_dmath_double_inline = True

# --- Formulas: MathJax in one file, which asks for no other ------------------------------------


def mathjax_file() -> Path:
    """The single-file MathJax that the package sphinx-mathjax-offline carries."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("sphinx-mathjax-offline is not installed: pip install '.[docs]'")
    return Path(package.origin).parent / "static" / "mathjax" / "tex-svg-full.js"


mathjax_path = "tex-svg-full.js"

# --- The reference -----------------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"
# The list beside a class has fit(), not BayesianPCA.fit().
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# --- The gallery -------------------------------------------------------------------------------

# Folders of examples in the order of the gallery; others come after them.
SECTIONS = (
    "first",
    "rank",
    "holes",
    "tables",
    "structure",
    "uncertainty",
    "ratings",
    "images",
    "practice",
    "scale",
    "papers",
)
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("bayespca",),
    "reference_url": {"bayespca": None},
    "filename_pattern": r"/plot_",
    "subsection_order": [*(f"../examples/{folder}" for folder in SECTIONS), "*"],
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "matplotlib_animations": False,
    # Its table would be drawn by programs from the network.
    "write_computation_times": False,
}

# --- The pages ---------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "bayespca"
html_static_path = ["_static", str(mathjax_file())]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": "bayespca",
        "image_light": "_static/icon.svg",
        "image_dark": "_static/icon.svg",
    },
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {page: [] for page in ("index", "start", "choosing", "theory")}

# --- What pages need on their way in -----------------------------------------------------------

ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', flags=re.MULTILINE)
MACHINERY = re.compile(r"set_\w+_request|get_metadata_routing|set_output|\w+_posterior")
# A repository view shows the examples, the site the gallery made of them.
EXAMPLES = "](../examples)"
FOLDER = re.compile(r"\[([\w/]+)\]\(\.\./(?:\w+)\)")


def markdown_of_the_site(app, docname, source):
    """Anchors in HTML become targets, and folders of the repository their bare names.

    The folder of examples is the gallery.
    """
    if (HERE / f"{docname}.md").exists():
        source[0] = source[0].replace(EXAMPLES, "](/gallery/index.rst)")
        source[0] = FOLDER.sub(r"`\1`", ANCHOR.sub(r"(\1)=", source[0]))


def members_of_others(app, what, name, obj, skip, options):
    """Leave out attributes, which the docstring of a class lists, and machinery."""
    return True if MACHINERY.fullmatch(name) or not callable(obj) else None


def kinds_of_attributes(app, what, name, obj, options, lines):
    """An underscore at the end of a name in `array of shape (n_components_,)` makes no link."""
    for i, line in enumerate(lines):
        head, colon, kind = line.partition(" : ")
        if colon and re.fullmatch(r"\w[\w, ]*", head):
            lines[i] = head + colon + re.sub(r"(\w)_(?!\w)", r"\1\\_", kind)


def public_names(app, env, node, contnode):
    """Link names to the reference wherever they are written: examples and displays name estimators
    without their module.
    """
    if (node.get("refdomain"), node.get("reftype")) != ("py", "obj"):
        return None
    domain, asked = env.get_domain("py"), node["reftarget"]
    places = (env, node["refdoc"], app.builder, "obj")
    tried = (f"{module}.{asked}" for module in ("bayespca", "bayespca.displays"))
    found = (domain.resolve_xref(*places, name, node, contnode) for name in tried)
    return next(filter(None, found), None)


def setup(app):
    app.connect("missing-reference", public_names)
    # Before numpydoc, whose priority is 500, reads the sections.
    app.connect("autodoc-process-docstring", kinds_of_attributes, priority=400)
    app.connect("source-read", markdown_of_the_site)
    app.connect("autodoc-skip-member", members_of_others)
