"""The lines that repair a GPU's packages are those of the extras."""

import tomllib
from pathlib import Path

import pytest

import snref
from snref.device.present import PIP

ROOT = Path(snref.__file__).parents[1]


@pytest.mark.parametrize(("cuda", "extra"), [(12, "gpu"), (13, "gpu13")])
def test_the_line_for_pip_installs_what_the_extra_does(cuda, extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["optional-dependencies"][extra]
    assert PIP[cuda] == "pip install " + " ".join(f"'{name}'" for name in wanted)
