"""What the list of Numba's own CUDA tests says passes, passes: see `numba_suite.py`.

    pytest tests/simt/test_numba_suite.py -m "slow or full" -s

prints the share of the class "language". Tests of all other classes are listed, but not
held: whether they pass depends on the drivers and toolkits of the machine.
"""

from collections import Counter
from pathlib import Path

import numba
import pytest

from snref import simt
from snref.simt.drop_in import installed

from . import numba_suite

LISTED = numba_suite.listed()
LANGUAGE = {name for name, line in LISTED.items() if line.startswith("language")}
FILES = sorted({name.split("::")[0] for name in LANGUAGE})
QUICK = ["cudapy/test_gufunc_scalar"]
MADE_FOR = numba_suite.LIST.read_text().split()[2].rstrip(":")

of_this_numba = pytest.mark.skipif(
    numba.__version__ != MADE_FOR, reason=f"the list is of Numba {MADE_FOR}"
)


@of_this_numba
@pytest.mark.parametrize(
    "file",
    [f if f in QUICK else pytest.param(f, marks=pytest.mark.full) for f in FILES],
)
def test_what_is_listed_as_passed_passes(file):
    ran = {line.split()[-1]: line for line in numba_suite.run_apart(file)}
    passed = {
        name
        for name, line in LISTED.items()
        if name.startswith(f"{file}::") and line.split()[:2] == ["language", "passed"]
    }
    assert not {
        name for name in passed if ran.get(name, " failed").split()[1] != "passed"
    }


@of_this_numba
@pytest.mark.slow
def test_the_list_has_every_test_in_the_class_of_the_rule():
    classes = {}
    with installed():
        for file in numba_suite.files():
            for case in numba_suite.cases(file):
                name = f"{file}::{type(case).__name__}::{case._testMethodName}"
                classes[name] = numba_suite.class_of(file, case)
    assert {name: line.split()[0] for name, line in LISTED.items()} == classes


def test_the_page_has_the_share_of_the_language(capsys):
    passed, of = numba_suite.share(LISTED.values())
    classes = Counter(line.split()[0] for line in LISTED.values())
    with capsys.disabled():
        print(
            f"\nNumba's own CUDA tests of class language: {passed} of {of} pass "
            f"({passed / of:.1%}); listed by class: {dict(classes)}"
        )
    page = Path(simt.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"Numba {MADE_FOR}" in page
    assert f"{passed} of {of} pass" in page
