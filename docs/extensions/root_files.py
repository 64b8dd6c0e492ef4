"""Files of the root folder that are pages of the site, too.

In the repository a page links to ../benchmarks/README.md, and that file to
../docs/defaults.md. On the site both are pages of one folder. The Markdown of such a
page has a link to the file, for readers of the repository, and then includes it.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PAGES = {  # file of the root folder -> page
    "benchmarks/README.md": "reference/benchmarks.md",
    "configs/README.md": "reference/configs.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "reference/contributing.md",
}
INCLUDE = "```{include}"
LINK = re.compile(r"(\]\()([^)#\s]+)")


def as_pages(text: str, folder: str) -> str:
    """The text with links to root files, and of root files to docs/, as pages.

    Args:
        text: Markdown.
        folder: Where the file of the text is, from the root folder.
    """

    def link(match: re.Match[str]) -> str:
        if match[2].startswith("http"):
            return match[0]
        path = (Path("/") / folder / match[2]).resolve().relative_to("/").as_posix()
        if path in PAGES:
            return f"{match[1]}/{PAGES[path]}"
        if folder.startswith("docs"):
            return match[0]
        page = path.removeprefix("docs/")
        return f"{match[1]}/{page if page != path else '../' + path}"

    return LINK.sub(link, text)


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    text = source[0]
    if f"{name}.md" in PAGES.values():
        text = text[text.index(INCLUDE) :]  # which has a title of its own
    source[0] = as_pages(text, f"docs/{Path(name).parent}")


def read_included(app: Sphinx, path: Path, name: str, source: list[str]) -> None:
    path = (Path(app.srcdir) / path).resolve()
    folder = path.relative_to(Path(app.srcdir).parent).parent
    source[0] = as_pages(source[0], folder.as_posix())


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", read_page)
    app.connect("include-read", read_included)
    return {"parallel_read_safe": True}
