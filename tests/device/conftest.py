"""What ``pytest -m gpu`` found out about the GPU is printed behind the results."""


def pytest_terminal_summary(terminalreporter):
    for passed in terminalreporter.stats.get("passed", []):
        for name, text in passed.user_properties:
            if name == "gpu":
                terminalreporter.section("the GPU")
                terminalreporter.write_line(text)
