"""The reranker for measuring: its tokenizer and prompt. Its weights cost too much to be made here."""

from pathlib import Path

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from producer_tools.generate import WORDS
from scripts.random_reranker import SPECIAL, write_tokenizer


def test_each_word_of_the_made_up_texts_is_one_token_and_the_prompt_three(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = " ".join(WORDS)
    assert len(tokenizer.encode(text).ids) == len(WORDS)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    chat = [{"role": "query", "content": "time"}, {"role": "document", "content": "year"}]
    _, start, end = SPECIAL
    prompt = AutoTokenizer.from_pretrained(str(tmp_path)).apply_chat_template(chat, tokenize=False)
    assert prompt == f"{start}time{end}year{end}"
