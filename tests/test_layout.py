"""The shape of the repository: what becomes importable, who imports whom, how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IMPORT_ROOTS = {
    "agentlight_run": {"agentlight_run"},
    "instrumentation": {"agentlight", "agentlight_instrumentation"},
    "store": {"agentlight_store"},
    "trainer": {"agentlight_trainer"},
}
MAY_IMPORT = {
    "agentlight_run": {"agentlight_run", "agentlight_instrumentation", "agentlight_store"},
    "agentlight_instrumentation": {"agentlight_instrumentation", "agentlight_store"},
    "agentlight": {"agentlight", "agentlight_instrumentation"},
    "agentlight_store": {"agentlight_store"},
    "agentlight_trainer": {"agentlight_trainer", "agentlight_store"},
}
HEAVY = {"torch", "transformers", "peft", "safetensors", "accelerate", "vllm"}
SOURCES = sorted(path for folder in IMPORT_ROOTS for path in (ROOT / folder).rglob("*.py"))


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[1]


def imports(path: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("folder", IMPORT_ROOTS)
def test_an_import_root_holds_agentlight_packages_and_nothing_else(folder):
    """In a development install the folder is on sys.path: a stray store/utils.py would be the user's `import utils`."""
    found = {path.name for path in (ROOT / folder).iterdir() if path.name != "__pycache__"}
    assert found == IMPORT_ROOTS[folder]


def test_the_injected_folder_holds_sitecustomize_and_nothing_else():
    """It is first on the agent's sys.path: any other file in it would hide a module of the user's."""
    folder = ROOT / "agentlight_run" / "agentlight_run" / "inject"
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["sitecustomize.py"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    """run -> instrumentation -> store <- trainer; torch and its like in the trainer only."""
    found = imports(path)
    ours = {name for name in found if name.startswith("agentlight")}
    assert ours <= MAY_IMPORT[package(path)]
    if package(path) != "agentlight_trainer":
        assert not found & HEAVY


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_a_page_or_two_and_a_function_fits_a_screen(path):
    """At most 300 lines a file and 60 a function."""
    text = path.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            classes = [item for item in node.body if isinstance(item, ast.ClassDef)]  # judged by their own methods
            lines = sum((item.end_lineno or 0) - item.lineno for item in classes)
            assert (node.end_lineno or 0) - node.lineno - lines < 60, f"{node.name} is too long"


def test_every_transport_and_dialect_in_the_tables_has_its_file():
    """A new one is a file and a table line; neither can be forgotten."""
    from agentlight_instrumentation.dialects import DIALECTS
    from agentlight_instrumentation.transports import TRANSPORTS

    for table, folder in ((DIALECTS, "dialects"), (TRANSPORTS, "transports")):
        files = (ROOT / "instrumentation" / "agentlight_instrumentation" / folder).glob("[!_]*.py")
        assert {path.stem for path in files} == set(table.values())


def test_the_behaviour_policy_is_spelt_one_way():
    """One spelling in code, so that a search finds everything."""
    american = "behav" + "ior_"
    assert not [str(path) for path in SOURCES if american in path.read_text()]


def test_the_readme_file_map_is_the_tree():
    """Every path that the README's map names exists, and every package and top-level folder is named in it."""
    readme = (ROOT / "README.md").read_text()
    block = readme.split("## File map", 1)[1].split("```")[1]
    named = [line.split()[0] for line in block.splitlines() if line.strip()]
    assert [name for name in named if not (ROOT / name).exists()] == []
    for folder, packages in IMPORT_ROOTS.items():
        for name in packages:
            assert any(entry.startswith(f"{folder}/{name}/") for entry in named), f"{folder}/{name} is not in the map"


def test_links_in_the_documents_lead_somewhere():
    """A relative link in a Markdown file names a file that exists."""
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("command", ["agentlight_run", "agentlight_store.cli", "agentlight_trainer"])
def test_help_fits_a_screen(command):
    """At most 48 lines of at most 100 columns, and nothing heavy imported to print it."""
    code = f"import runpy, sys; sys.argv = ['x', '--help']; runpy.run_module('{command}', run_name='__main__')"
    if command == "agentlight_store.cli":
        code = "from agentlight_store.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and 5 < len(lines) <= 48, f"{len(lines)} lines\n{done.stderr}"
    assert max(map(len, lines)) <= 100
