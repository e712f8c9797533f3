"""What can never work is refused when settings are read: by name, with the fix, in words for people."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from consumer.cli import app
from consumer.errors import SettingsInvalid
from consumer.finding import Finding, Refused
from consumer.settings import Settings, load_settings
from consumer.startup.surroundings import check_environment, check_files
from producer_tools.connections.problems import open_names, section_names, setting_names
from producer_tools.connections.worker_settings import places

JARGON = (
    "Input should",
    "Extra inputs",
    "validation error",
    "pydantic",
    "valid dictionary",
    "Value error",
    "traceback",
)
SECRETS = {"redis.url", "redis.security.password", "kafka.security.password", "kafka.security.key_password"}


def refusal(overrides: Mapping[str, object]) -> str:
    with pytest.raises(SettingsInvalid) as refused:
        load_settings(overrides)
    return str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("kafka.bootstrap_servers", "http://x", "http://x is a URL: write host:port,host:port"),
        ("kafka.bootstrap_servers", "PLAINTEXT://kafka:9092", "is a URL"),
        ("kafka.bootstrap_servers", "kafka", "kafka is not of the form host:port"),
        (
            "kafka.bootstrap_servers",
            "kafka:99999",
            "kafka:99999 has a port that there is not: take one from 1 to 65535",
        ),
        ("kafka.bootstrap_servers", "kafka:0", "has a port that there is not"),
        ("kafka.bootstrap_servers", "kafka:9092 other:9092", "is not of the form host:port"),
        ("kafka.bootstrap_servers", "::1:9092", "IPv6 as [::1]:9092"),
        ("kafka.bootstrap_servers", " , ", "no address stands there"),
        ("kafka.bootstrap_servers", '["kafka"]', "kafka is not of the form host:port"),
        ("kafka.request_topic", "score requests", "Kafka has no topic of such a name"),
        ("kafka.result_topic", "", "Kafka has no topic of such a name"),
        ("kafka.dead_letter_topic", "x" * 250, "Kafka has no topic of such a name"),
        ("kafka.group_id", "", "it is empty"),
        ("kafka.compression", "brotli", "write none, gzip, snappy, lz4 or zstd"),
        ("kafka.session_timeout_seconds", "3000000", "`3000000` is too large: write a number of at most 2147483"),
        ("kafka.max_partition_fetch_bytes", 2**31, "at most 2147483647"),
        ("kafka.security.protocol", "TLS", "write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("kafka.security.token_endpoint", "provider/token", "it is no web address: write https://host/path"),
        ("kafka.security.token_endpoint", "https://host:port/token", "no host and port from 1 to 65535"),
        ("redis.url", "http://x", "it is no address of a Redis: begin it with redis://"),
        ("redis.url", "localhost:6379", "it is no address of a Redis"),
        ("redis.url", "redis://x:99999/0", "host:port, a port being 1 to 65535"),
        ("redis.url", "redis+sentinel://a:26379,b:99999/main/0", "host:port, a port being 1 to 65535"),
        ("redis.ttl_seconds", 10**12, "at most 2147483647"),
        ("redis.timeout_seconds", "inf", "no finite number"),
        ("redis.timeout_seconds", "nan", "no finite number"),
        ("redis.timeout_seconds", "2s", "`2s` is no number"),
        ("redis.timeout_seconds", 0, "`0` is too small: write a number above 0"),
        ("engine.dtype", "float99", "`float99` is not among its values: write auto, half, float16, bfloat16, float or"),
        ("engine.model", "https://huggingface.co/BAAI/bge-reranker-base", "it is a URL"),
        ("engine.max_num_seqs", "many", "`many` is no whole number: write one, in digits"),
        ("engine.max_num_seqs", 1.5, "`1.5` is no whole number"),
        ("engine.prefix_caching", "maybe", "`maybe` is neither true nor false"),
        ("engine.served_names", "[a,b]", 'it begins with [ and is no JSON list: write a,b or ["a","b"]'),
        ("engine.served_names", "['a','b']", "is no JSON list"),
        ("engine.served_names", '"a","b"', "it has quotes and no brackets"),
        ("engine.served_names", [1], "`1` is no text"),
        ("engine.revision", 12345678, "what looks like a number or a date in YAML needs quotes"),
        ("engine.args", "max_loras", "text is no section"),
        ("health.host", "http://x", "is neither an IP address nor a name: write one alone"),
        ("health.host", "0.0.0.0:8080", "without scheme, port and brackets"),
        ("health.host", "[::]", "without scheme, port and brackets"),
        ("health.port", 99_999, "`99999` is too large: write a number of at most 65535"),
        ("health.unix_socket", "/tmp/" + "x" * 120, "it has 125 bytes"),
        ("workers.count", 65, "at most 64"),
        ("limits", 5, "a number is no section"),
        ("limits.max_items", None, "nothing stands there"),
    ],
)
def test_a_value_that_can_never_work_is_refused_by_name_with_the_fix(setting: str, value: object, says: str) -> None:
    said = refusal({setting: value})
    assert said.startswith(f"{setting}")
    assert says in said
    assert not [word for word in JARGON if word in said]


@pytest.mark.parametrize("value", ["word", [], {"a": "b"}, -1, None, 1e400, b"\xff", object()], ids=repr)
@pytest.mark.parametrize("setting", [*setting_names(Settings), *section_names(Settings)])
def test_whatever_is_wrong_with_any_setting_is_said_in_words_for_people(setting: str, value: object) -> None:
    findings: list[Finding] = []
    try:
        load_settings({setting: value})
    except Refused as refused:
        findings.extend(refused.findings)
    assert not [word for word in JARGON if word in "".join(map(str, findings))]
    assert all(finding.name and finding.found and finding.fix for finding in findings)


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("kafka.gruop_id", "did you mean kafka.group_id?"),
        ("kafka.bootstrapServers", "did you mean kafka.bootstrap_servers?"),
        ("kafka.bootstrap-servers", "did you mean kafka.bootstrap_servers?"),
        ("KAFKA.GROUP_ID", "did you mean kafka.group_id?"),
        ("kafka.sasl_mechanism", "did you mean kafka.security.sasl_mechanism?"),
        ("kafka.security.sasl.mechanism", "kafka.security has protocol, ca_file"),
        ("group_id", "did you mean kafka.group_id? In YAML it is `kafka: {group_id: ...}`"),
        ("kafak.group_id", "did you mean kafka.group_id?"),
        ("engine.max_batch", "an argument of vLLM's is engine.args.max_batch"),
        ("metrics.port", "did you mean health.port?"),
        ("colour", "the sections are kafka, redis, engine"),
        ("_env_file", "the sections are kafka, redis, engine"),
        ("", "the sections are kafka, redis, engine"),
        ("kafka.", "kafka has bootstrap_servers"),
    ],
)
def test_of_a_setting_that_there_is_not_the_nearest_is_named(written: str, fix: str) -> None:
    said = refusal({written: "x"})
    assert fix in said
    assert not [word for word in JARGON if word in said]


def test_a_section_and_what_stands_below_it_cannot_both_be_given_a_value() -> None:
    assert "kafka is set to a value too" in refusal({"kafka": "x", "kafka.group_id": "g"})


@pytest.mark.parametrize("spelling", ["a,b", " a , b ", '["a","b"]', ' [ "a", "b" ] ', ["a", "b"]])
@pytest.mark.parametrize("setting", ["engine.served_names", "engine.io_processors", "kafka.security.sasl_extensions"])
@pytest.mark.parametrize("source", ["environment", "file", "command line"])
def test_a_list_has_two_spellings_wherever_it_is_written(
    source: str, setting: str, spelling: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = {"protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "token_provider": "a:b"}
    more: dict[str, Any] = {f"kafka.security.{name}": value for name, value in tokens.items()}
    if setting.endswith("extensions"):
        spelling = json.loads(json.dumps(spelling).replace("a", "a=1").replace("b", "b=2"))
        if isinstance(spelling, str):
            spelling = spelling.replace("\\u0061=1", "a=1")
    match source:
        case "environment":
            text = spelling if isinstance(spelling, str) else json.dumps(spelling)
            monkeypatch.setenv(f"SCORESTREAM_{setting.replace('.', '__').upper()}", text)
        case "file":
            *sections, name = setting.split(".")
            tree: dict[str, Any] = {name: spelling}
            for section in reversed(sections):
                tree = {section: tree}
            (tmp_path / "s.yaml").write_text(yaml.safe_dump(tree))
            monkeypatch.setenv("SCORESTREAM_CONFIG", str(tmp_path / "s.yaml"))
        case _:
            more[setting] = spelling
    found: Any = load_settings(more)
    for name in setting.split("."):
        found = getattr(found, name)
    assert found == (("a=1", "b=2") if setting.endswith("extensions") else ("a", "b"))


@pytest.mark.parametrize("spelling", ["a:1,[::1]:2", " a:1 , [::1]:2,", '["a:1","[::1]:2"]', ["a:1", "[::1]:2"]])
def test_brokers_are_a_list_in_either_spelling_for_worker_and_tools(
    spelling: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings({"kafka.bootstrap_servers": spelling}).kafka.bootstrap_servers == "a:1,[::1]:2"
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"kafka": {"bootstrap_servers": spelling}}))
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(tmp_path / "s.yaml"))
    assert places()["bootstrap_servers"] == "a:1,[::1]:2"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SCORESTREAM_KAFKA_GROUP_ID", "g", "it is not read: write SCORESTREAM_KAFKA__GROUP_ID"),
        ("SCORESTREAM_KAFKA_SECURITY_PASSWORD", "hidden", "write SCORESTREAM_KAFKA__SECURITY__PASSWORD"),
        ("SCORESTREAM_KAFKA_SECURITY__PASSWORD", "hidden", "write SCORESTREAM_KAFKA__SECURITY__PASSWORD"),
        ("SCORESTREAM_KAFKA__SECURITY_PASSWORD", "hidden", "write SCORESTREAM_KAFKA__SECURITY__PASSWORD"),
        ("SCORESTREAM_KAFKA", "hidden", "kafka holds others, and its value is no JSON object"),
        ("SCORESTREAM_KAFKA__SECURITY", "{hidden", "no JSON object"),
        ("SCORESTREAM_ENGINE__ARGS", "hidden", "no JSON object"),
        ("SCORESTREAM_KAFAK__GROUP_ID", "g", "did you mean SCORESTREAM_KAFKA__GROUP_ID?"),
        ("SCORESTREAM_KAFKA__GRUOP_ID", "g", "did you mean kafka.group_id?"),
    ],
)
def test_a_name_in_the_environment_that_misses_its_setting_is_refused(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    said = refusal({})
    assert says in said
    assert "hidden" not in said


def test_tools_refuse_a_name_that_misses_its_setting_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCORESTREAM_KAFKA_BOOTSTRAP_SERVERS", "far:9092")
    ended = CliRunner().invoke(app, ["watch"])
    assert ended.exit_code == 2
    assert "write SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS" in ended.output


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SCORESTREAM_PORT", "tcp://10.0.0.1:80"),
        ("SCORESTREAM_HEALTH_PORT", "tcp://10.0.0.1:8080"),
        ("SCORESTREAM_KAFKA_SERVICE_HOST", "10.0.0.1"),
        ("SCORESTREAM_KAFKA_SERVICE_PORT_CLIENTS", "9092"),
        ("SCORESTREAM_REDIS_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("SCORESTREAM_WORKER_INDEX", "0"),
        ("SCORESTREAM_CONFIG", ""),
        ("OTHER", "x"),
    ],
)
def test_what_kubernetes_sets_for_services_is_no_mistake(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    load_settings()
    assert check_environment({variable: value}) == []


def test_another_name_that_begins_like_a_setting_is_worth_a_warning() -> None:
    [near, far] = check_environment({"SCORESTREAM_KAFKA_GROUPID": "g", "SCORESTREAM_FOO": "x"})
    assert (near.level, near.fix) == ("WARN", "did you mean SCORESTREAM_KAFKA__GROUP_ID?")
    assert (far.level, far.name) == ("WARN", "SCORESTREAM_FOO")


def test_values_below_engine_args_are_json_in_the_environment_as_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "ENFORCE_EAGER": "false",
        "MAX_LORAS": "4",
        "HF_OVERRIDES__A": "[1]",
        "QUANTIZATION": "fp8",
    }.items():
        monkeypatch.setenv(f"SCORESTREAM_ENGINE__ARGS__{name}", value)
    assert load_settings().engine.args == {
        "enforce_eager": False,
        "max_loras": 4,
        "hf_overrides": {"a": [1]},
        "quantization": "fp8",
    }
    assert list(open_names(Settings)) == ["engine.args"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"redis.url": "hunter2"},
        {"redis.url": "redis://:hun/ter2@h:6379/0"},
        {"redis.url": "redis://:hunter2#@h:x/0"},
        {"redis.url": "redis://:[hunter2@h:6379/0"},
        {"redis.url": ["hunter2"]},
        {"redis.url": 5, "redis": {"url": {"hunter2": "hunter2"}}},
        {"kafka.security": "hunter2"},
        {"kafka": "hunter2"},
        {"kafka.security.password": ["hunter2"]},
        {"kafka.security.password:hunter2": None},
        {"kafka.security.password hunter2": None},
        {"kafka.bootstrap_servers": "user:hunter2@h:9092"},
        {"kafka.bootstrap_servers": "kafka://user:hunter2@h:9092"},
        {"kafka.security.token_endpoint": "https://id:hunter2@host/token"},
        {"kafka.security.token_endpoint": "https://id:hun/ter2@host"},
        {"kafka.security.sasl_extensions": "hunter2"},
        {"health.host": "u:hunter2@h"},
    ],
    ids=str,
)
def test_no_piece_of_a_secret_is_in_a_refusal(overrides: dict[str, object]) -> None:
    tokens = {"kafka.security.protocol": "SASL_SSL", "kafka.security.sasl_mechanism": "OAUTHBEARER"}
    tokens["kafka.security.token_provider"] = "a:b"
    if "kafka.security" not in overrides and "kafka" not in overrides:
        overrides = tokens | overrides
    if "redis" in overrides:
        overrides.pop("redis.url")
    said = refusal(overrides)
    assert "hunter2" not in said
    assert "ter2" not in said


@pytest.mark.parametrize(
    "given",
    [
        {"hf_token": "hunter2"},
        {"hf_overrides": {"deep": [{"api-key": "hunter2"}], "accessToken": "hunter2"}},
        {"KEY": "hunter2"},
    ],
    ids=str,
)
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_no_secret_is_printed_with_the_settings(given: dict[str, object], option: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, ["config", *option, "--set", f"engine.args={json.dumps(given)}"])
    assert shown.exit_code == 0
    assert "hunter2" not in shown.output
    assert "*****" in shown.output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kafka.group_id: g", "kafka.group_id is one name with a dot in it: nest it, as `kafka: {group_id: ...}`"),
        ("kafka: {security.protocol: SSL}", "nest it: `kafka: {security: {protocol: ...}}`"),
        ("group_id: g", "In YAML it is `kafka: {group_id: ...}`"),
        ("kafka:\n\tgroup_id: g", "line 2: a tab: indent with spaces"),
        ("kafka:\n  group_id: g\n\tresult_topic: x", "line 3: "),
        ("kafka: group_id: g", "line 1: a second `:` in one line"),
        ("kafka:\n  group_id: g\n redis: {}", "line 3: its indentation is that of no line above"),
        ("kafka:\n  group_id: 'g\n", "line 2: a quote or a bracket is not closed"),
        ("kafka: {group_id: g\n", "line 1: a quote or a bracket is not closed"),
        ("kafka: {}\n---\nredis: {}", "line 2: a second document begins"),
        ("kafka: {}\nkafka: {}", "line 2: kafka stands there a second time"),
        ("kafka: {group_id: a, group_id: b}", "line 1: group_id stands there a second time"),
        ("- kafka", "holds no sections"),
        ("kafka", "holds no sections"),
        ("5", "holds no sections"),
        ("kafka: [a]", "kafka: a list is no section"),
        ("1: {}", "1 is no section"),
        ("kafka: {1: 2}", "kafka.1: "),
        ("kafka: {group_id: 2024-99-99}", "a date or a number in it is none: write it in quotes"),
        ("kafka: {group_id: 'a\x01'}", "line 1: a control character, U+0001"),
        ("kafka: {security: {password: *hunter2}}", "line 1: * has a meaning in YAML"),
        ("kafka: {security: {password: !hunter2 x}}", "line 1: ! has a meaning in YAML"),
        ("kafka: {security: {password: @hunter2}}", "line 1: a character that no value can begin with"),
        ("kafka:\n  security:\n    password: |hunter2", "line 3: | or > has a meaning in YAML"),
        ("kafka:\n  security: {password: &x hunter2, username: &x hunter2}", "line 2: & has a meaning in YAML"),
        ("kafka:\n  security: {password:hunter2}", "kafka.security.password: more stands there than a name"),
        ('kafka:\n  security: {password: "\\hunter2"}', "has a meaning in YAML"),
        (f"kafka: {'[' * 5000}", "it is nested too deep"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_line_and_no_value(
    content: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.yaml").write_text(content)
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(tmp_path / "s.yaml"))
    said = refusal({})
    assert says in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kafka: {}".encode("utf-16"), "is UTF-16, or no text: save it as UTF-8"),
        ("kafka: {}".encode("utf-16-be"), "is UTF-16, or no text: save it as UTF-8"),
        (b"kafka: {}\nredis: {prefix: '\xe9'}", "line 2 is not UTF-8"),
    ],
)
def test_a_file_in_another_encoding_is_named_as_that(
    content: bytes, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.yaml").write_bytes(content)
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(tmp_path / "s.yaml"))
    assert says in refusal({})


@pytest.mark.parametrize(
    "content", ["﻿kafka: {group_id: g}", "kafka:\r\n  group_id: g\r\n", "kafka:\n  group_id: g\n  security:\n"]
)
def test_a_byte_order_mark_and_an_empty_section_do_no_harm(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.yaml").write_bytes(content.encode())
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(tmp_path / "s.yaml"))
    assert load_settings().kafka.group_id == "g"


@pytest.mark.parametrize(
    "name", ["username", "password", "password_file", "ca_file", "sasl_mechanism", "token_endpoint"]
)
def test_an_empty_variable_is_as_one_that_is_not_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"SCORESTREAM_KAFKA__SECURITY__{name.upper()}", "")
    assert load_settings().kafka == Settings().kafka.model_copy()


def test_files_that_are_not_here_fail_a_check_and_are_a_warning_where_settings_are_shown(tmp_path: Path) -> None:
    given = {
        "redis.security.password_file": str(tmp_path / "missing"),
        "redis.url": "rediss://h:1",
        "redis.security.ca_file": str(tmp_path),
    }
    findings = {finding.name: finding for finding in check_files(load_settings(given))}
    assert {name: finding.level for name, finding in findings.items()} == dict.fromkeys(
        ("redis.security.password_file", "redis.security.ca_file"), "FAIL"
    )
    assert "No such file" in findings["redis.security.password_file"].found
    assert "it is a folder" in findings["redis.security.ca_file"].found
    options = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    shown = CliRunner().invoke(app, ["config", "--json", *options])
    assert shown.exit_code == 0
    assert "warning: redis.security.password_file: " in shown.stderr
    assert json.loads(shown.stdout)["redis"]["security"]["password_file"] == given["redis.security.password_file"]


def test_every_problem_has_a_name_of_its_own_for_programs() -> None:
    bad = {"health.port": -1, "kafka.gruop_id": "x", "engine.dtype": "float99"}
    with pytest.raises(Refused) as refused:
        load_settings(bad)
    assert {finding.name for finding in refused.value.findings} == {*bad}
    with pytest.raises(Refused) as refused:
        load_settings({"redis.ttl_seconds": 90_000})
    [finding] = refused.value.findings
    assert (finding.name, finding.found) == ("redis.ttl_seconds", "redis.ttl_seconds is 90000")
    assert finding.fix == "set it to at most redis.max_ttl_seconds (86400)"
