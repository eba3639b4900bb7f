"""The fork server of the session, and its counts at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attack import tally
from tests.attack.driver import Driver, disk_faults


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("attack"), disk_faults())
    yield driver
    driver.close()


@pytest.fixture
def place(driver: Driver, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Make a directory of the test's own, which is gone at its end."""
    place = driver.scratch / f"case-{abs(hash(request.node.nodeid)):x}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not tally.counts:
        return
    for line in tally.lines():
        terminalreporter.write_line(line)
    for part, sentences in tally.notes.items():
        for sentence in sentences:
            terminalreporter.write_line(f"{part}: {sentence}")
    stats = terminalreporter.stats
    holes = [getattr(report, "wasxfail", "") for report in stats.get("xfailed", [])]
    if ledger := os.environ.get("ATTACK_LEDGER"):
        passed, failed = (len(stats.get(name, [])) for name in ("passed", "failed"))
        tally.enter(Path(ledger), passed, failed, holes)
