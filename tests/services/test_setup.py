"""What `scripts/setup.py` asks of uv, seen by a uv that writes down what it is asked."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from scripts import uv

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE_UV = """\
#!/bin/sh
for last; do :; done
[ "$1" = --version ] && echo "uv 0.13.9" && exit
echo "$@" >> {calls}
[ "$1" = venv ] && mkdir -p "$last/bin" && ln -sf /bin/true "$last/bin/python"
while [ $# -gt 0 ]; do
  [ "$1" = --dry-run ] && exit {dry_run_exit}
  [ "$1" = --override ] && cat "$2" >> {calls}
  shift
done
exit 0
"""


class Checkout:
    """A copy of the scripts with a uv, and perhaps an nvidia-smi, of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.calls = folder / "calls"
        self.bin = folder / "bin"
        self.bin.mkdir()
        shutil.copytree(REPOSITORY / "scripts", self.folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "requirements.lock"):
            shutil.copy(REPOSITORY / file, self.folder)
        self.pytorch_index_answers(yes=True)
        self.command("nvidia-smi", "#!/bin/sh\nexit 9\n")

    def command(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def pytorch_index_answers(self, *, yes: bool) -> None:
        self.command("uv", FAKE_UV.format(calls=self.calls, dry_run_exit=0 if yes else 2))

    def setup(self, *arguments: str) -> list[str]:
        """Run it; returns what uv was asked for."""
        self.calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder)}
        command = [sys.executable, "-m", "scripts.setup", *arguments]
        subprocess.run(command, cwd=self.folder, env=environment, check=True, capture_output=True)
        return self.calls.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_second_run_with_nothing_changed_asks_uv_for_nothing(checkout: Checkout) -> None:
    assert checkout.setup("test")
    assert checkout.setup("test") == []
    assert checkout.setup("demo") == []


def test_the_tests_add_their_packages_to_the_environment_of_the_demo(checkout: Checkout) -> None:
    assert not any("--group dev" in call for call in checkout.setup("demo"))
    (call,) = checkout.setup("test")
    assert "--group dev" in call


def test_a_changed_pyproject_is_installed_over_with_the_same_source_of_torch(checkout: Checkout) -> None:
    checkout.pytorch_index_answers(yes=False)
    checkout.setup("demo")
    checkout.pytorch_index_answers(yes=True)
    with (checkout.folder / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    calls = checkout.setup("demo")
    assert not any(call.startswith("venv") for call in calls)
    assert "torch==2.13.0" in calls


def test_torch_comes_from_its_own_index_where_that_answers(checkout: Checkout) -> None:
    *_, install = checkout.setup("demo")
    assert "--torch-backend cpu" in install
    assert ".[cpu," in install


def test_torch_comes_from_pypi_where_its_own_index_does_not_answer(checkout: Checkout) -> None:
    checkout.pytorch_index_answers(yes=False)
    *_, install, override = checkout.setup("demo")
    assert "--torch-backend" not in install
    assert override == "torch==2.13.0"


def test_a_gpu_gets_vllm_for_cuda_in_a_new_environment(checkout: Checkout) -> None:
    checkout.setup("demo")
    checkout.command("nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H200'\n")
    venv, install = checkout.setup("demo")
    assert venv.startswith("venv --clear")
    assert "--torch-backend auto" in install
    assert ".[cuda," in install
    assert any("[cpu," in call for call in checkout.setup("demo", "--engine", "cpu"))


def test_an_interrupted_run_is_done_again(checkout: Checkout) -> None:
    checkout.setup("demo")
    (checkout.folder / ".venv" / "scorestream-setup.json").unlink()
    assert checkout.setup("demo")[0].startswith("venv --clear")


@pytest.mark.parametrize("intact", [True, False])
def test_uv_from_its_release_page_is_taken_only_with_the_published_checksum(intact: bool, tmp_path: Path) -> None:
    site, work = tmp_path / "site", tmp_path / "work"
    site.mkdir()
    work.mkdir()
    name = f"uv-{os.uname().machine}-unknown-linux-{'musl' if uv.is_musl() else 'gnu'}"
    (tmp_path / "uv").write_text("#!/bin/sh\necho uv 0.99.1\n")
    with tarfile.open(site / f"{name}.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "uv", arcname=f"{name}/uv")
    checksum = hashlib.sha256((site / f"{name}.tar.gz").read_bytes()).hexdigest()
    (site / f"{name}.tar.gz.sha256").write_text(f"{checksum if intact else '0' * 64} *{name}.tar.gz\n")
    if intact:
        assert uv.uv_version(uv.uv_by_release(work, site.as_uri())) == (0, 99)
    else:
        with pytest.raises(RuntimeError, match="SHA-256"):
            uv.uv_by_release(work, site.as_uri())


def test_an_environment_that_is_only_linked_here_is_left_alone(checkout: Checkout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (checkout.folder / ".venv").symlink_to(elsewhere)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        checkout.setup("test")
    assert b"remove the link" in refused.value.stdout + refused.value.stderr
    assert (elsewhere / "precious").exists()
    assert checkout.calls.read_text() == ""
