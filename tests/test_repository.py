"""What rots in silence: links, workflow files, the version in the citation, the names of extras."""

import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCUMENTS = [
    path
    for pattern in ("*.md", "docs/*.md", "firmware/*.md", "examples/*/*.md")
    for path in sorted(ROOT.glob(pattern))
]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


def read(path):
    return path.read_text(encoding="utf-8")


def name(path):
    return str(path.relative_to(ROOT))


def prose(text):
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """The anchors that GitHub makes of the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", prose(read(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_relative_link_leads_somewhere(path):
    links = re.findall(r"\]\(([^)\s]+)\)", prose(read(path)))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{name(path)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(target), f"{name(path)}: {link} is not a heading there"


def test_every_page_is_in_the_index():
    index = read(ROOT / "docs" / "index.md")
    for page in sorted((ROOT / "docs").iterdir()):
        if page.suffix in (".md", ".json") and page.name != "index.md":
            assert f"({page.name}" in index, f"docs/index.md does not link {page.name}"


def test_the_plan_of_the_house_names_what_exists():
    plan = read(ROOT / "docs" / "architecture.md")
    flows = re.findall(r"^\*\*.+\n\n((?:\d\. .+\n)+)", plan, re.MULTILINE)
    assert len(flows) == 4
    for flow in flows:
        steps = flow.splitlines()
        assert len(steps) <= 6
        for step in steps:
            found = re.match(r"\d\. `((?:edgeforest|export)/[\w/]+\.py)`", step)
            assert found, f"a step begins with its file: {step}"
            assert (ROOT / found[1]).is_file(), step
    files = plan.partition("## Files for boards")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", files))
    board = {path.stem for path in (ROOT / "edgeforest").glob("[!_]*.py")}
    assert board <= named, "the table of files for boards lacks some"


def test_every_page_with_examples_runs_them():
    options = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["pytest"]["ini_options"]
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        if ">>> " in read(page) and page.name != "api.md":  # its examples run as docstrings
            assert name(page) in options["testpaths"]
            assert f"--doctest-glob={page.name}" in options["addopts"]


def test_the_first_screen_shows_what_a_stranger_wants_to_see():
    lines = read(ROOT / "README.md").splitlines()[:45]
    screen = "\n".join(lines)
    for what in ("pip install", ">>> ", "](docs/accuracy.svg)", "|---|", "docs/index.md"):
        assert what in screen


def test_the_citation_has_the_version_of_the_package():
    citation = read(ROOT / "CITATION.cff")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [PROJECT["version"]]
    assert f"## {PROJECT['version']} " in read(ROOT / "CHANGELOG.md")


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_workflows_call_what_exists(path):
    text = re.sub(r"(^| )#.*$", "", read(path), flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.MULTILINE))
    called = re.findall(r"\bmake ([a-z]+)", text)
    assert set(called) <= targets, f"{called} in {name(path)}; the Makefile has {targets}"
    files = re.findall(r"\b(?:tools|tests)/\w+\.py|\.ci/\w+|\b[A-Z]+\.md", text)
    assert called or files
    for file in files:
        assert (ROOT / file).exists(), f"{name(path)} runs {file}, which does not exist"
    assert "\t" not in text
    if importlib.util.find_spec("yaml"):  # not among what the tests install
        assert importlib.import_module("yaml").safe_load(text)["jobs"]


def test_the_release_has_the_wheels_of_every_job_and_tries_those_for_linux():
    text = read(ROOT / ".github" / "workflows" / "wheels.yml")
    jobs = re.findall(r"^  (\w+):$", text.partition("\njobs:\n")[2], re.MULTILINE)
    needed = re.search(r"needs: \[(.+)\]", text)
    assert needed
    assert [*needed[1].split(", "), "release"] == jobs
    linux = text.partition("  linux:\n")[2].partition("\n  native:\n")[0]
    order = [
        linux.index(part) for part in ("make wheels", "tools/try_wheels.py --get", "dist/*.whl")
    ]
    assert order == sorted(order)
    assert "ubuntu" not in text.partition("\n  native:\n")[2].partition("\n  pure:\n")[0]


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_options_that_workflows_give_to_scripts_exist(path):
    for script, given in re.findall(r"(tools/\w+\.py)((?: +--[\w-]+)+)", read(path)):
        for option in given.split():
            assert f'"{option}"' in read(ROOT / script), f"{script} has no {option}"


def test_workflows_run_the_test_command_on_every_version():
    text = read(ROOT / ".github" / "workflows" / "tests.yml")
    assert re.search(r"run: make test$", text, re.MULTILINE)
    for line in PROJECT["classifiers"]:
        version = line.removeprefix("Programming Language :: Python :: ")
        if re.fullmatch(r"3\.\d+", version):
            assert f'"{version}"' in text, f"tests.yml does not test Python {version}"


def test_every_extra_that_a_sentence_names_exists():
    found = set()
    for folder in ("edgeforest", "export", "docs", "examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md"):
                found |= set(re.findall(r"edgeforest\[([\w,]+)\]", read(path)))
                found |= set(re.findall(r"'\.\[([\w,]+)\]'", read(path)))
    found |= set(re.findall(r"'\.\[([\w,]+)\]'", read(ROOT / "README.md")))
    named = {extra for extras in found for extra in extras.split(",")}
    assert {"onnx", "parquet", "viz", "numpy"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_extra_all_has_every_extra_for_users():
    extras = PROJECT["optional-dependencies"]
    (own,) = [line for line in extras["all"] if line.startswith("edgeforest[")]
    apart = {"fleet"}  # Flower wants another protobuf than onnx
    wanted = set(extras) - {"all", "test", "bench"} - apart
    assert set(own[len("edgeforest[") : -1].split(",")) == wanted


def test_release_notes_are_those_of_the_changelog(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import release_notes

    text = "# Changelog\n\n## 0.2.0 (2030-01-02)\n\n- new\n\n## 0.1.0 (2029-01-02)\n\n- old\n"
    assert release_notes.notes(text, "0.2.0") == "- new"
    assert release_notes.notes(text, "0.1.0") == "- old"
    with pytest.raises(ValueError, match=r"no release 0\.3\.0"):
        release_notes.notes(text, "0.3.0")
    with pytest.raises(ValueError, match="not released"):
        release_notes.notes("## 0.3.0 (not released yet)\n\n- soon\n", "0.3.0")
    assert release_notes.main(["v99.0.0"]) == 1
    assert "the tag says 99.0.0" in capsys.readouterr().err


def test_the_check_of_an_installed_package_is_content_here():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "try_wheel.py", "--without-native"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "grow the same forest" in done.stdout


def test_hooks_before_a_commit_fetch_nothing():
    text = read(ROOT / ".pre-commit-config.yaml")
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert set(re.findall(r"language: (\S+)", text)) == {"system"}
