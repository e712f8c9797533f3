"""Whether a tokenizer's ids all have a row in the model: of one that has not, single requests would fail, for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tokenizers import Tokenizer

from consumer.errors import SettingsInvalid

_MOST_NAMED = 3


def check_vocabulary(tokenizer: Tokenizer, vocabulary_size: int, always: Iterable[int]) -> None:
    """Raises SettingsInvalid for entries that a text may become, or that stand in every sequence, beyond the model's.

    `vocabulary_size`: the model's, from config.json; a tokenizer may have fewer entries. `always`: ids that the worker
    itself puts around texts. An added token that is special becomes no text's, so it may lie beyond.
    """
    added = tokenizer.get_added_tokens_decoder()
    of_texts: Mapping[str, int] = tokenizer.get_vocab(with_added_tokens=False)
    plain = {token.content: token_id for token_id, token in added.items() if not token.special}
    around = {str(tokenizer.id_to_token(token_id)): token_id for token_id in always}
    entries = {**of_texts, **plain, **around}
    beyond = sorted((token_id, token) for token, token_id in entries.items() if token_id >= vocabulary_size)
    if beyond:
        named = ", ".join(f"{token!r} ({token_id})" for token_id, token in beyond[:_MOST_NAMED])
        more = f" and {len(beyond) - _MOST_NAMED} more" if len(beyond) > _MOST_NAMED else ""
        raise SettingsInvalid(
            f"engine.model: its tokenizer has {named}{more}, and its config.json a vocab_size of {vocabulary_size}: a "
            "text with such a token cannot be scored. Add the tokenizer with which the model was trained, or its "
            "weights with as many embeddings"
        )
