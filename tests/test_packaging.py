"""What a stranger sees first: light imports, files, links, the wheel."""

import re
import subprocess
import sys
import zipfile

import pytest
import yaml

import gsdm_pyg
from tests.helpers import ROOT

HEAVY = ("diffusers", "lightning", "matplotlib", "huggingface_hub", "tensorboard")


def printed(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


@pytest.mark.slow
def test_the_layer_is_imported_without_what_it_does_not_need():
    layer = "from gsdm_pyg.nn import StructuredAttentionConv"
    loaded = f"import sys; print([m for m in {HEAVY} if m in sys.modules])"
    assert printed(f"{layer}; {loaded}") == "[]"


@pytest.mark.slow
def test_submodules_are_attributes_of_the_package():
    assert printed("import gsdm_pyg; print(gsdm_pyg.nn.__name__)") == "gsdm_pyg.nn"


def test_every_public_name_can_be_had():
    for name in gsdm_pyg.__all__:
        assert getattr(gsdm_pyg, name) is not None
        assert name in dir(gsdm_pyg)
    with pytest.raises(AttributeError, match="has no attribute 'GSMD'"):
        gsdm_pyg.GSMD  # noqa: B018


def test_files_that_strangers_look_for_are_there():
    for name in ("LICENSE", "CITATION.cff", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert (ROOT / name).read_text().strip(), name
    assert "MIT License" in (ROOT / "LICENSE").read_text()
    assert (ROOT / "gsdm_pyg" / "py.typed").is_file()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == gsdm_pyg.__version__
    assert citation["preferred-citation"]["year"] == 2023


def test_readme_is_short_and_links_point_to_files():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/[!_]*.md"),
        *ROOT.glob("*/README.md"),
    ]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_licence_only(tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    # Built without isolation, so that nothing is downloaded.
    options = ["--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run([*pip, *options], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"gsdm_pyg-{gsdm_pyg.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"gsdm_pyg", f"gsdm_pyg-{gsdm_pyg.__version__}.dist-info"}
    assert "gsdm_pyg/py.typed" in names
    static = {p.name for p in (ROOT / "gsdm_pyg/workbench/static").iterdir()}
    assert static == {n.split("/")[-1] for n in names if "/static/" in n}
    assert any(name.endswith("licenses/LICENSE") for name in names)
