"""Apache Kafka is fetched once, verified, and never half."""

import functools
import hashlib
import http.server
import re
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import java, kafka, kafka_home

ROOT = Path(__file__).parents[2]
NAMES = ("kafka-server-start.sh", "kafka-storage.sh")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server of this test: its address and the folder that it serves."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


def release(folder: Path) -> str:
    """A release archive laid out as Apache's, and its SHA-512."""
    inside = folder / "kafka_2.13-4.3.1" / "bin"
    inside.mkdir(parents=True)
    for name in NAMES:
        (inside / name).write_text("#!/bin/sh\n")
    archive = folder / kafka_home.ARCHIVE
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(inside.parent, arcname="kafka_2.13-4.3.1")
    return hashlib.sha512(archive.read_bytes()).hexdigest()


def test_a_release_missing_at_the_first_address_is_taken_from_the_second(
    site: tuple[str, Path], tmp_path: Path
) -> None:
    address, folder = site
    sha512 = release(folder)
    target = tmp_path / "kafka"
    urls = (f"{address}/elsewhere/{kafka_home.ARCHIVE}", f"{address}/{kafka_home.ARCHIVE}")
    kafka_home.fetch_release(target, urls, sha512)
    assert kafka_home.is_distribution(target)


def test_bytes_that_are_not_the_published_ones_are_never_unpacked(site: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = site
    sha512 = release(folder)
    archive = folder / kafka_home.ARCHIVE
    archive.write_bytes(archive.read_bytes() + b"\0")
    target = tmp_path / "kafka"
    with pytest.raises(RuntimeError, match="SHA-512"):
        kafka_home.fetch_release(target, (f"{address}/{kafka_home.ARCHIVE}",), sha512)
    assert not target.exists()
    assert not target.with_name("unpacked").exists()


def test_a_truncated_download_is_refused(site: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = site
    sha512 = release(folder)
    archive = folder / kafka_home.ARCHIVE
    archive.write_bytes(archive.read_bytes()[:-10])
    with pytest.raises(RuntimeError, match="SHA-512"):
        kafka_home.fetch_release(tmp_path / "kafka", (f"{address}/{kafka_home.ARCHIVE}",), sha512)


def test_when_no_way_works_the_message_has_every_reason_and_the_fix_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    unreachable = functools.partial(kafka_home.fetch_release, urls=("http://127.0.0.1:9/kafka.tgz",))
    monkeypatch.setattr(kafka_home, "fetch_release", unreachable)
    with pytest.raises(RuntimeError, match=r"(?s)KAFKA_HOME.*no mvn on the PATH.*refused"):
        kafka_home.kafka_home()
    assert [path.name for path in (tmp_path / "scorestream").iterdir()] == [f"kafka-{kafka_home.VERSION}.lock"]


def test_a_kafka_home_is_used_as_it_is_and_a_wrong_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"KAFKA_HOME is {tmp_path}"):
        kafka_home.kafka_home()
    (tmp_path / "bin").mkdir()
    for name in NAMES:
        (tmp_path / "bin" / name).touch()
    assert kafka_home.kafka_home() == tmp_path


@pytest.mark.parametrize(("version", "new_enough"), [("1.8", False), ("11", False), ("17", True), ("25", True)])
def test_a_java_says_itself_where_it_lives_and_an_old_one_is_not_taken(
    version: str, new_enough: bool, tmp_path: Path
) -> None:
    launcher = tmp_path / "java"
    launcher.write_text(
        f"#!/bin/sh\nprintf '    java.home = /opt/java-{version}\\n    java.specification.version = {version}\\n' >&2\n"
    )
    launcher.chmod(0o755)
    assert java.home_if_new_enough(launcher) == (Path(f"/opt/java-{version}") if new_enough else None)


def test_what_is_no_java_is_not_taken(tmp_path: Path) -> None:
    assert java.home_if_new_enough(Path("/bin/true")) is None
    assert java.home_if_new_enough(tmp_path / "missing") is None


def test_every_script_of_kafkas_that_is_named_anywhere_is_among_what_is_fetched() -> None:
    pages = [ROOT / "README.md", ROOT / "DESIGN.md", ROOT / "Makefile"]
    for folder in ("docs", "helm", "consumer", "producer_tools", "scripts"):
        pages += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".md", ".py", ".yaml", ".txt", ".tpl"}]
    named = {name for page in pages for name in re.findall(r"\bkafka-[a-z-]+\.sh\b", page.read_text())}
    assert {"kafka-acls.sh", "kafka-topics.sh"} < named
    assert named - {*kafka_home.COMMANDS, "kafka-run-class.sh"} == set()


def test_a_home_that_was_laid_out_with_fewer_scripts_gets_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "scorestream" / f"kafka-{kafka_home.VERSION}"
    home.mkdir(parents=True)
    kafka_home.write_layout(home)
    (home / "bin" / "kafka-acls.sh").unlink()
    assert kafka_home.missing_scripts(kafka_home.kafka_home()) == []
    assert sorted(path.name for path in (home / "bin").iterdir()) == sorted(
        [*kafka_home.COMMANDS, "kafka-run-class.sh"]
    )


@pytest.mark.kafka
def test_the_class_behind_every_script_is_among_the_jars() -> None:
    home = kafka_home.kafka_home()
    assert kafka_home.missing_scripts(home) == []
    classes: set[str] = set()
    for jar in (home / "libs").glob("kafka*.jar"):
        with zipfile.ZipFile(jar) as packed:
            classes.update(packed.namelist())
    assert [name for name in kafka_home.COMMANDS.values() if f"{name.replace('.', '/')}.class" not in classes] == []


@pytest.mark.kafka
def test_what_a_shell_evaluates_lets_it_run_the_tools() -> None:
    command = 'eval "$("$0" -m scripts.kafka env)" && kafka-topics.sh --version'
    ran = subprocess.run(
        ["bash", "-c", command, sys.executable], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(kafka_home.VERSION)


def test_a_start_where_something_listens_already_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert kafka.main(["start", str(tmp_path), str(port)]) == 1
    assert f"127.0.0.1:{port} cannot be had (Address already in use)" in capsys.readouterr().err
