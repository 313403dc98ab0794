"""Devices that kernels really run on, for tests of what must hold on each."""

import pytest


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device; ``pytest -m gpu`` is for the GPU, a skip without one."""
    from snref.device.present import find_gpu

    if request.param == "cuda" and not (found := find_gpu()).works:
        pytest.skip(f"no GPU: {found.says}")
    return str(request.param)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which every test was skipped: it has shown nothing.

    So ``pytest -m ptx`` without the extra that it needs is no success.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter else {}
    if session.exitstatus == 0 and "skipped" in stats and "passed" not in stats:
        reporter.write_line("\nevery test was skipped: this run has shown nothing")
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
