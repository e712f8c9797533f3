"""Texts to token ids, with the model's own tokenizer: no padding, no truncation, nothing but its special tokens added.

A text is tokenised alone, once, and cut afterwards; one sequence of a micro-batch is then only a concatenation of
lists. The model's layout (which special tokens stand where, and which tokens are of segment 1) is learnt from its own
post-processor when the tokenizer is loaded, and refused when it is not of that form. Assembling a pair so gives the
ids that encoding the pair at once gives, without the post-processor's 8 us per pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from tokenizers import Encoding, Tokenizer

from consumer.errors import SettingsInvalid
from consumer.interfaces import EncodedText
from consumer.model.template import Template
from consumer.model.token_vectors import TokenVectors
from consumer.prompt_layout import PromptLayout
from consumer.records import TokenSequence
from consumer.vector_layout import VectorLayout
from consumer.vocabulary import check_vocabulary
from consumer.word_tokens import WordTokens

_PROBES = ("one", "two three")
_VOCABULARY_GLOBS = ("tokenizer.json", "vocab*", "*.model")


class Tokens(NamedTuple):
    """One text's token ids, without special tokens. The tokenizer's own object builds its list anew at every look."""

    ids: list[int]
    offsets: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class SequenceLayout:
    """The special tokens around one text or around a pair.

    `segment_start`: tokens between the end of the query and the first token of segment 1; None without segments.
    """

    single_prefix: list[int]
    single_suffix: list[int]
    pair_prefix: list[int]
    pair_middle: list[int]
    pair_suffix: list[int]
    segment_start: int | None

    @classmethod
    def learn(cls, tokenizer: Tokenizer, *, has_segments: bool) -> Self:
        """Read the layout off the tokenizer's own output for a text and for a pair.

        `has_segments`: the model has more than one token type, and is given them. Raises SettingsInvalid for any other
        form.
        """
        query, document = tokenizer.encode_batch(list(_PROBES), add_special_tokens=False)
        # Encoded whole, because a tokenizer without a post-processor marks the second text as it encodes it.
        single, pair = tokenizer.encode(_PROBES[0]), tokenizer.encode(*_PROBES)
        prefix, suffix = _around(single, [query])
        pair_prefix, middle, pair_suffix = _around(pair, [query, document])
        segment_start = None
        if has_segments and any(single.type_ids):
            raise SettingsInvalid(f"engine.model: its tokenizer's segments {single.type_ids} are not supported")
        if has_segments and any(pair.type_ids):
            first = next(at for at, segment in enumerate(pair.type_ids) if segment)
            segment_start = first - len(pair_prefix) - len(query)
            rest = len(pair.type_ids) - first
            if not 0 <= segment_start <= len(middle) or pair.type_ids != [0] * first + [1] * rest:
                raise SettingsInvalid(f"engine.model: its tokenizer's segments {pair.type_ids} are not supported")
        return cls(prefix, suffix, pair_prefix, middle, pair_suffix, segment_start)


def _around(assembled: Encoding, texts: Sequence[Encoding]) -> list[list[int]]:
    """The special tokens before, between and after the texts."""
    specials: list[list[int]] = []
    rest = assembled.ids
    for text in texts:
        length = len(text.ids)
        starts = [at for at in range(len(rest)) if rest[at : at + length] == text.ids]
        if not starts:
            raise SettingsInvalid("engine.model: its tokenizer changes a text when it adds special tokens")
        specials.append(rest[: starts[0]])
        rest = rest[starts[0] + length :]
    specials.append(rest)
    if sum(map(len, specials)) != sum(assembled.special_tokens_mask):
        raise SettingsInvalid("engine.model: its tokenizer repeats a text when it adds special tokens")
    return specials


class ModelTokenizer:
    """The TextEncoder of a loaded model. Used from one thread at a time; `encode` releases the GIL."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        has_segments: bool = False,
        lower_case: bool = False,
        with_offsets: bool = False,
        template: Template | None = None,
        token_vectors: TokenVectors | None = None,
    ) -> None:
        # The tokenizer file may carry fixed padding and truncation (all-MiniLM: 128 and 128).
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.prompt = PromptLayout.learn(tokenizer, template) if template else None
        # "[SEP]" in a user's text is five characters, not an instruction to the model.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._words = WordTokens.of(tokenizer)
        self._lower_case = lower_case
        self._with_offsets = with_offsets
        self.layout = layout = SequenceLayout.learn(tokenizer, has_segments=has_segments)
        self.vectors = (
            VectorLayout.learn(tokenizer, token_vectors, layout.single_prefix, layout.single_suffix)
            if token_vectors
            else None
        )

    def check_vocabulary(self, vocabulary_size: int) -> None:
        """Raises SettingsInvalid where a sequence may have an id that a model of so many entries has not."""
        layout, prompt, vectors = self.layout, self.prompt, self.vectors
        around = {*layout.single_prefix, *layout.single_suffix}
        around.update(layout.pair_prefix, layout.pair_middle, layout.pair_suffix)
        if prompt:
            around = set(prompt.own_ids)
        if vectors:
            around = {*vectors.query_head, *vectors.document_head, *vectors.tail}
            around.update(() if vectors.filling is None else (vectors.filling,))
        check_vocabulary(self._tokenizer, vocabulary_size, around)

    @property
    def has_segments(self) -> bool:
        """The second text of a pair is marked by token_type_ids."""
        return self.layout.segment_start is not None

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Tokenise a batch of texts, without special tokens; control tokens in a text are text."""
        batch = [text.lower() for text in texts] if self._lower_case else list(texts)
        if self._with_offsets:
            whole = self._tokenizer.encode_batch(batch, add_special_tokens=False)
            return [Tokens(one.ids, one.offsets) for one in whole]
        if self._words:
            return [Tokens(ids) for ids in self._words.encode(batch)]
        return [Tokens(one.ids) for one in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)]

    def single(self, text: EncodedText, max_tokens: int) -> TokenSequence:
        """One text with the model's special tokens, cut at the right to `max_tokens` in all.

        Raises ValueError when the special tokens leave no room for one token of the text.
        """
        layout = self.layout
        room = max_tokens - len(layout.single_prefix) - len(layout.single_suffix)
        if room < 1:
            raise ValueError(f"{max_tokens} tokens leave no room for the text")
        ids = text.ids
        start = len(layout.single_prefix)
        return TokenSequence(
            ids=layout.single_prefix + ids[:room] + layout.single_suffix,
            truncated=len(ids) > room,
            text_span=(start, start + min(room, len(ids))),
        )

    def pair(self, query: EncodedText, document: EncodedText, max_tokens: int) -> TokenSequence:
        """A pair with the model's special tokens; the query is kept whole, the document cut at the right.

        Raises ValueError when query and special tokens leave no room for one token of the document.
        """
        layout = self.layout
        head = layout.pair_prefix + query.ids
        room = max_tokens - len(head) - len(layout.pair_middle) - len(layout.pair_suffix)
        if room < 1:
            raise ValueError(f"the query takes {len(head)} of {max_tokens} tokens and leaves no room for the document")
        ids = document.ids
        return TokenSequence(
            ids=head + layout.pair_middle + ids[:room] + layout.pair_suffix,
            second_segment_start=None if layout.segment_start is None else len(head) + layout.segment_start,
            truncated=len(ids) > room,
        )


def load_tokenizer(
    folder: Path,
    *,
    has_segments: bool,
    lower_case: bool,
    with_offsets: bool = False,
    template: Template | None = None,
    token_vectors: TokenVectors | None = None,
) -> ModelTokenizer:
    """The tokenizer of a model's folder, built as transformers builds it: from tokenizer.json, or its vocabulary alone.

    By transformers, because tokenizer_config.json may change what tokenizer.json says; its import takes seconds. Its
    `model_input_names` decide whether a model that has segments is given them, as they do in a call of transformers':
    the class that a file names may have none, and so may the one that transformers takes in its place.
    What else it takes is as the model's card says. Raises SettingsInvalid when there is no fast tokenizer, or when
    template or token vectors do not fit it.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415 - needed once per process

    # transformers makes an empty vocabulary where it finds none, and every text would be one unknown word.
    if not any(path for glob in _VOCABULARY_GLOBS for path in folder.glob(glob)):
        raise SettingsInvalid(f"engine.model is {folder}: it has no tokenizer: add its tokenizer.json")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as unreadable:  # transformers raises whatever the file at fault leads it to, TypeError included
        raise SettingsInvalid(
            f"engine.model is {folder}: its tokenizer cannot be read: {type(unreadable).__name__}: {unreadable}"
        ) from unreadable
    if not tokenizer.is_fast:
        raise SettingsInvalid(
            f"engine.model is {folder}: {type(tokenizer).__name__} has no fast form: add a tokenizer.json"
        )
    return ModelTokenizer(
        tokenizer.backend_tokenizer,
        has_segments=has_segments and "token_type_ids" in tokenizer.model_input_names,
        lower_case=lower_case,
        with_offsets=with_offsets,
        template=template,
        token_vectors=token_vectors,
    )
