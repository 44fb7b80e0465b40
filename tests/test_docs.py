"""The pages of docs/ are true: commands print what is shown, links lead somewhere, each policy and format has a page.

In a page that is run, a fenced block whose first line is ``# file: NAME`` is a file, and a block with the info string
``console`` is a session: lines that begin with ``$ `` are commands, the others all that these print. A line ``...``
stands for any lines, and ``...`` within a line for anything. ``console exit=1`` says the exit code of its commands, 0
by default.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from slotwise.cli import main
from slotwise.policies.catalogue import NAMES
from slotwise.workloads.traces import WORKLOAD_FORMATS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
RUN_ALONE = [DOCS / "tutorial.md", DOCS / "how-do-i.md", *sorted((DOCS / "traces").glob("*.md"))]
OF_THE_SHELL = set("|&;<>$*?`(")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: where it begins, its info string, and its lines."""

    at: str
    info: str
    lines: tuple[str, ...]

    @property
    def file(self) -> str | None:
        first = self.lines[0] if self.lines else ""
        return first.removeprefix("# file:").strip() if first.startswith("# file:") else None

    @property
    def exit_code(self) -> int:
        found = re.fullmatch(r"console(?: exit=(\d+))?", self.info)
        assert found is not None, f"{self.at}: unknown info string {self.info!r}"
        return int(found[1] or 0)

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each command with the lines that are shown below it."""
        command, shown = "", list[str]()
        for line in self.lines:
            if line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line[2:], []
            else:
                shown.append(line)
        assert command, f"{self.at}: a console block has no line that begins with '$ '"
        yield command, shown


def blocks(page: Path) -> Iterator[Block]:
    fence, at, info, lines = "", "", "", list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence and line == fence:
            yield Block(at, info, tuple(lines))
            fence = ""
        elif fence:
            lines.append(line)
        elif (found := re.match(r"(`{3,})(.*)", line)) is not None:
            fence, info, lines = found[1], found[2].strip(), []
            at = f"{page.relative_to(ROOT)}:{number}"
    assert not fence, f"{at}: block does not end"


def matches(shown: Sequence[str], printed: str) -> bool:
    """Whether all that was printed is what is shown, where ``...`` stands for anything."""
    pattern = ""
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.rstrip().split("...")) + r"\n"
    text = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    while pattern.endswith(r"\n\n"):
        pattern = pattern.removesuffix(r"\n")
    return re.fullmatch(pattern, text) is not None


def run(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    words = shlex.split(command)
    if not OF_THE_SHELL & set(command):
        if words[0] == "slotwise":
            return main(words[1:])
        if words[0] == "python":
            with monkeypatch.context() as patched:
                patched.setattr(sys, "argv", words[1:])
                runpy.run_path(words[1], run_name="__main__")
            return 0
    tools = folder / ".bin"
    tools.mkdir(exist_ok=True)
    for name, arguments in (("slotwise", "-m slotwise"), ("python", "")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        tool.chmod(0o755)
    given = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, shell=True, cwd=folder, env=given, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def play(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> int:
    """Run a page in a folder; return how many commands it has."""
    monkeypatch.chdir(folder)
    count = 0
    for block in blocks(page):
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text("".join(f"{line}\n" for line in block.lines[1:]))
        elif block.info.partition(" ")[0] != "console":
            assert not any(line.startswith("$ ") for line in block.lines), f"{block.at}: commands that are not run"
        else:
            for command, shown in block.commands():
                capfd.readouterr()
                code = run(command, folder, monkeypatch)
                out, err = capfd.readouterr()
                # What is said while kernels are compiled depends on the machine.
                printed = out + re.sub(r"^slotwise: .* \.\.\.\n", "", err, flags=re.MULTILINE)
                assert code == block.exit_code, f"{block.at}: $ {command}\nexit code {code}\n{printed}"
                assert matches(shown, printed), f"{block.at}: $ {command}\nprints\n{printed}"
                count += 1
    return count


@pytest.mark.parametrize("page", RUN_ALONE, ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_of_a_page_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert play(page, tmp_path, monkeypatch, capfd) >= (0 if page.name == "README.md" else 2)


def test_commands_of_the_policies_print_what_their_pages_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # All of them play the jobs of the first page.
    pages = [DOCS / "policies/README.md", *(DOCS / f"policies/{name}.md" for name in NAMES)]
    for page in pages:
        assert play(page, tmp_path, monkeypatch, capfd) >= 1


def test_what_is_shown_is_compared() -> None:
    printed = "\none  1.5   \ntwo  2\nthree\n\n"
    assert matches(["one  1.5", "two  2", "three"], printed)
    assert matches(["one  ...", "...", "three", ""], printed)
    assert matches(["...", "two  2", "..."], printed)
    assert matches(["..."], printed)
    assert not matches(["one  1.6", "two  2", "three"], printed)
    assert not matches(["one  1x5", "two  2", "three"], printed)
    assert not matches(["one  1.5", "three"], printed)
    assert not matches(["one  1.5", "two  2"], printed)
    assert not matches(["two  2", "..."], printed)
    assert not matches(["...", "three", "two  2"], printed)
    assert not matches([], printed)


def test_every_policy_and_every_format_has_a_page() -> None:
    for folder, names in (("policies", NAMES), ("traces", WORKLOAD_FORMATS)):
        pages = {page.stem for page in (DOCS / folder).glob("*.md")} - {"README"}
        assert pages == set(names)
        index = (DOCS / folder / "README.md").read_text(encoding="utf-8")
        for name in names:
            assert f"({name}.md)" in index
            assert f"`{name}`" in (DOCS / folder / f"{name}.md").read_text(encoding="utf-8").splitlines()[0]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks and without code."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = dict[str, int]()
    names = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        kept = "".join(c for c in plain if c in "-_ " or unicodedata.category(c)[0] in "LN")
        name = kept.replace(" ", "-")
        seen = found.get(name, 0)
        found[name] = seen + 1
        names.add(f"{name}-{seen}" if seen else name)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(<?([^)>\s]+)>?\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.relative_to(ROOT)}: {target} is not there"
        assert there.is_relative_to(ROOT), f"{page.relative_to(ROOT)}: {target} leads out"
        if anchor:
            assert there.suffix == ".md", f"{page.relative_to(ROOT)}: {target} has an anchor and is no page"
            assert anchor in anchors(there), f"{page.relative_to(ROOT)}: {target} has no such heading"


def test_every_page_of_docs_is_linked_from_another() -> None:
    linked = {
        (page.parent / unquote(target).partition("#")[0]).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(<?([^)>\s#]+)", prose(page))
        if not re.match(r"[a-z]+:", target)
    }
    for page in PAGES[3:]:
        assert page.resolve() in linked, f"no page links to {page.relative_to(ROOT)}"


def test_no_page_shows_a_plural_of_one() -> None:
    nouns = "job|slot|machine|worker|server|row|run|configuration|seed|policie|other"
    wrong = [
        f"{block.at}: {line}"
        for page in PAGES
        for block in blocks(page)
        for line in block.lines
        if re.search(rf"(?<![-+.\d] )(?<![-+.\d])\b1 (failed |running |other |admitted )?({nouns})s\b", line)
    ]
    assert wrong == []
