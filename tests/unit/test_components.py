# SPDX-License-Identifier: Apache-2.0
"""The list of components: each component has the common layout, and a new component needs only one new line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import components
import pytest
from project import TOP, clean_environment

# what a component's folder may hold, apart from hidden files
SHAPE = {"src", "tests", "data", "meson.build", "meson.options", "README.md"}
# conf has only data. Its folders have the names of the folders where they are installed.
CONF = {"apps.d", "fstab", "kernel", "mkfs", "sysctl.d", "systemd", "udev"}
# The flash model also has: the cited figures, the sources of its parameters, the model as a Python module, a program
# that varies the parameters, and tests that need a guest.
FLASHSIM = {"figures.toml", "sources.toml", "timing.py", "sensitivity.py", "guest"}
NEW = """# sample: a component for a test
"""


@pytest.mark.parametrize("component", components.components(), ids=lambda c: c.name)
def test_component_has_the_common_shape(component: components.Component) -> None:
    allowed = SHAPE | {"conf": CONF, "flashsim": FLASHSIM}.get(component.name, set())
    tracked = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=component.path, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    entries = {name.partition("/")[0] for name in tracked if (component.path / name).exists()}
    assert {entry for entry in entries if not entry.startswith(".")} <= allowed
    assert component.summary
    assert component.unit in ("pytest", "meson", "-")
    assert (component.image != "-") <= (component.path / "meson.build").is_file()


def test_every_folder_of_recipes_is_listed() -> None:
    folders = {f"recipes/{path.name}" for path in (TOP / "recipes").iterdir() if any(path.glob("*"))}
    assert folders <= {component.folder for component in components.components()}


def test_documents_have_the_table() -> None:
    for name in components.DOCUMENTS:
        text = (TOP / name).read_text()
        assert components.PART.search(text), f"{name} has no part 'generated: components'"
        assert components.renewed(text) == text, f"the table in {name} is not up to date; run 'make docs'"


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "mk").mkdir()
    (tmp_path / components.LIST).write_text("# a comment\nagent recipes/agent pytest\n")
    with pytest.raises(ValueError, match=r"mk/components, line 2: expected NAME FOLDER UNIT RECIPE IMAGE"):
        components.components(tmp_path)


def test_one_line_adds_a_component_everywhere(clone: Path) -> None:
    """One line in the list is enough for all of this: the component's unit tests run, the image installs it, lint and
    format check it, documents list it, and the layer must have a recipe for it."""
    folder = clone / "recipes/sample"
    (folder / "src/evenkeel_sample").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "README.md").write_text(NEW)
    (folder / "meson.build").write_text("project('evenkeel-sample', version: files('../../VERSION'))\n")
    (folder / "src/evenkeel_sample/__init__.py").write_text("# SPDX-License-Identifier: Apache-2.0\n")
    (folder / "src/sample.c").write_text("int  x;\n")
    with (clone / components.LIST).open("a") as table:
        table.write("sample recipes/sample pytest evenkeel-sample tests=disabled\n")

    shown = "show: ; @echo 'unit: $(UNIT_PYTEST)'; echo 'image: $(IMAGE_COMPONENTS)'; echo 'sources: $(COMPONENT_SOURCES)'"
    done = subprocess.run(
        ["make", "-s", "--eval", shown, "show"],
        cwd=clone, env=clean_environment(EVENKEEL_CACHE=str(clone / "cache")),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert "recipes/sample/tests" in lines["unit"].split()
    assert "--component recipes/sample:tests=disabled" in lines["image"]
    assert "recipes/sample/src/sample.c" in lines["sources"].split()

    # lint checks the types of its Python packages; format and lint process its C code
    assert "recipes/sample/src/evenkeel_sample" in components.packages(clone)
    assert "recipes/sample" in components.user_space(clone)
    for script, which in (("lint", "packages"), ("lint", "modules"), ("format", "user-space")):
        assert f"tests/components.py {which})" in (TOP / "tests" / script).read_text().replace(" |", ")")

    assert "recipes/sample" in components.recipes(clone).values()
    assert "[sample](recipes/sample/README.md) | a component for a test" in components.table(clone)
    sys.path.insert(0, str(TOP / "tests/yocto"))
    import recipe_text

    assert components.recipes(TOP) == recipe_text.COMPONENTS, "the layer's tests read another list"
