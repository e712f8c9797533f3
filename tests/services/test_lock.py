"""requirements.lock holds what pyproject.toml asks for."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lock import EXTRAS, GROUPS
from scripts.setup import LOCK, REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
LINES = re.findall(r"^([\w.-]+)==([^ ;\n]+)", LOCK.read_text(), re.MULTILINE)
LOCKED = {canonicalize_name(name): version for name, version in LINES}
ASKED = [
    *PROJECT["project"]["dependencies"],
    *(each for extra in EXTRAS for each in PROJECT["project"]["optional-dependencies"][extra]),
    *(each for group in GROUPS for each in PROJECT["dependency-groups"][group]),
]


@pytest.mark.parametrize("asked", ASKED)
def test_every_requirement_is_locked_to_a_version_that_fits(asked: str) -> None:
    requirement = Requirement(asked)
    version = LOCKED[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version, prereleases=True), f"{version}: run `make lock`"


def test_the_lock_names_no_place_to_take_packages_from() -> None:
    assert "://" not in LOCK.read_text()
