"""A model that states its prompt in sentence-transformers' layout needs no setting, and gets exactly that prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import SettingsInvalid
from consumer.model.card import ModelCard
from consumer.model.recognise import recognise
from consumer.model.template import KNOWN
from consumer.sections import EngineSettings
from tests.models.byte_pairs import build_tokenizer
from tests.unit.model.folders import model_folder
from tests.unit.model.test_decoders import CONVERTED, QWEN3, SCORE

ROLE = "(messages | selectattr('role', 'eq', '{}') | map(attribute='content') | first)"
CHAT = (
    KNOWN["qwen3"]
    .text.replace(
        "{instruction}", "{{ " + ROLE.format("system") + " | default('" + KNOWN["qwen3"].instruction + "') }}"
    )
    .replace("{query}", "{{ " + ROLE.format("query") + " }}")
    .replace("{document}", "{{ " + ROLE.format("document") + " }}")
    # Jinja leaves out the newline at the end.
    + "\n"
)
TRANSFORMER = {"idx": 0, "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
LOGIT_SCORE = {
    "idx": 1,
    "path": "1_LogitScore",
    "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore",
}
MESSAGES = {
    "transformer_task": "text-generation",
    "modality_config": {"message": {"method": "forward", "format": "flat"}},
}


def folder_of(folder: Path, chat: str, tokens: tuple[str, str | None] | None = ("yes", "no"), **files: Any) -> Path:
    config, shapes = (QWEN3, {}) if tokens else (CONVERTED, SCORE)
    model_folder(folder, config, shapes)
    build_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(chat)
    content = {"sentence_bert_config": MESSAGES, "modules": [TRANSFORMER]} | files
    if tokens:
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        relevant, irrelevant = (vocabulary.get(token) for token in tokens)
        (folder / "1_LogitScore").mkdir()
        (folder / "1_LogitScore" / "config.json").write_text(
            json.dumps({"true_token_id": relevant, "false_token_id": irrelevant})
        )
        content["modules"] = [TRANSFORMER, LOGIT_SCORE]
    for name, value in content.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def card(folder: Path, **reranker: Any) -> ModelCard:
    return recognise(EngineSettings(model=str(folder), reranker=reranker))


def test_prompt_instruction_and_answers_are_read_from_the_files(tmp_path: Path):
    assert card(folder_of(tmp_path / "m", CHAT)).template == KNOWN["qwen3"]


def test_a_converted_models_prompt_too(tmp_path: Path):
    found = card(folder_of(tmp_path / "m", CHAT, tokens=None)).template
    assert found is not None
    assert (found.text, found.answer_tokens) == (KNOWN["qwen3"].text, [])


def test_one_answer_token_is_a_logit(tmp_path: Path):
    found = card(folder_of(tmp_path / "m", CHAT, tokens=("Yes", None)))
    assert found.head == "logit of 'Yes'"


def test_a_prompt_of_the_models_own_is_its_instruction(tmp_path: Path):
    named = {"prompts": {"web": "Find pages"}, "default_prompt_name": "web"}
    found = card(folder_of(tmp_path / "m", CHAT, config_sentence_transformers=named)).template
    assert found is not None
    assert found.instruction == "Find pages"


def test_settings_win(tmp_path: Path):
    found = card(folder_of(tmp_path / "m", CHAT), template="{query}: {document}", relevant_token="1").template
    assert found is not None
    assert (found.text, found.answer_tokens) == ("{query}: {document}", ["1"])


@pytest.mark.parametrize(
    ("chat", "said"),
    [
        (CHAT.replace("| first) }}<|im_end|>", "| first | trim) }}<|im_end|>"), "changes the document text"),
        (CHAT.replace("'query'", "'question'"), "does not hold a query and a document"),
    ],
)
def test_a_chat_template_that_does_more_than_put_texts_in_is_refused(tmp_path: Path, chat: str, said: str):
    folder = folder_of(tmp_path / "m", chat)
    with pytest.raises(SettingsInvalid, match=said):
        card(folder)


def test_a_chat_models_template_without_that_layout_says_nothing(tmp_path: Path):
    folder = folder_of(tmp_path / "m", CHAT, modules=[], sentence_bert_config={})
    (folder / "modules.json").write_text("[]")
    with pytest.raises(SettingsInvalid, match="needs its prompt"):
        card(folder)


def test_it_is_the_prompt_that_sentence_transformers_makes(tmp_path: Path):
    from sentence_transformers.base.modality import InputFormatter  # noqa: PLC0415 - seconds to import
    from transformers import AutoTokenizer  # noqa: PLC0415

    folder = folder_of(tmp_path / "m", CHAT)
    formatter = InputFormatter(
        model_type="qwen3", message_format="flat", processor=AutoTokenizer.from_pretrained(folder)
    )
    messages = formatter.pair_to_messages(("who?", " me\n"))
    expected = formatter.processor.apply_chat_template(messages, tokenize=False)
    template = card(folder).template
    assert template is not None
    text = template.text.replace("{instruction}", template.instruction)
    assert text.replace("{query}", "who?").replace("{document}", " me\n") == expected
