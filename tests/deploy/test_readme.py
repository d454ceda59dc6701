"""The README of deploy/ names every file there, and no other."""

import re
from pathlib import Path


def test_first_table_covers_every_file_and_no_other(deploy: Path) -> None:
    table = (deploy / "README.md").read_text().partition("\n## ")[0]
    cells = re.findall(r"^\| (.+?) \|", table, re.M)
    named = {name for cell in cells for name in re.findall(r"`(.+?)`", cell)}
    files = {
        str(path.relative_to(deploy))
        for path in deploy.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } - {"README.md"}
    folders = tuple(name for name in named if name.endswith("/"))

    assert {f for f in files - named if not f.startswith(folders)} == set()
    assert {name for name in named if not (deploy / name).exists()} == set()


def test_every_command_for_kustomize_names_a_folder_that_exists(
    root: Path, deploy: Path
) -> None:
    texts = [(deploy / "README.md").read_text()]
    texts += [path.read_text() for path in deploy.rglob("kustomization.yaml")]

    folders = set(re.findall(r"apply --kustomize ([\w/]+)", "\n".join(texts)))

    assert len(folders) == 2
    assert [f for f in folders if not (root / f / "kustomization.yaml").exists()] == []
