"""What snref/simt/README.md says is so."""

import re
import runpy
from pathlib import Path

from snref.simt import checker

PAGE = Path(checker.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path, capsys):
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    left = runpy.run_path(str(tmp_path / "example.py"))
    assert (left["y"] == 2 * left["x"]).all()
    assert "flops a byte" in capsys.readouterr().out


def test_the_table_has_every_kind_of_finding():
    kinds = {kind for kind, _ in checker._KINDS.values()} | {*checker.MORE_KINDS}
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == kinds
