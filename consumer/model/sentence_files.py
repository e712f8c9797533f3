"""What sentence-transformers would read of a model's folder and this worker does not: refused, by file and key.

Its files may change what a model computes: how it is loaded, which of its outputs counts, what stands behind it. So
every key of them is read here or in the family that needs it, or known to change no number; another one is refused,
also one that a later release of sentence-transformers adds. Source: sentence-transformers 6.2.0, base/modules,
base/model.py, and of PyLate's files multi_vector_encoder/model.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from consumer.model.card import ModelKind
from consumer.model.files import MODULES, ModelFiles

MODEL = "config_sentence_transformers.json"

_PACKAGES = ("sentence_transformers.", "pylate.")
"""Whose modules are known; others bring code of their own."""
_OVERRIDDEN = ("subfolder", "token", "cache_dir", "revision", "local_files_only", "trust_remote_code")
"""Where a model is loaded from: sentence-transformers puts its own in their place."""
_LOADING: Mapping[str, tuple[tuple[str, ...], str]] = {
    "model_args": (
        ("torch_dtype", "dtype", "attn_implementation", "device_map", "low_cpu_mem_usage", "use_safetensors"),
        "leave it out",
    ),
    "config_args": (
        ("use_cache", "torch_dtype", "dtype", "attn_implementation", "return_dict", "output_attentions"),
        "say the same in config.json, or in engine.args.hf_overrides",
    ),
    "tokenizer_args": (
        ("use_fast", "padding", "padding_side", "clean_up_tokenization_spaces"),
        "say the same in tokenizer_config.json",
    ),
}
"""What is passed on when weights, config and tokenizer are loaded -> keys that change no number here, and the fix."""
_ONE_OF_LOADING = {
    **{name: name for name in _LOADING},
    "model_kwargs": "model_args",
    "config_kwargs": "config_args",
    "tokenizer_kwargs": "tokenizer_args",
    "processor_kwargs": "tokenizer_args",
}
_OUTPUTS: Mapping[ModelKind, tuple[str, str, tuple[str, ...]]] = {
    ModelKind.EMBEDDING: ("feature-extraction", "last_hidden_state", ("token_embeddings",)),
    ModelKind.LATE_INTERACTION: ("feature-extraction", "last_hidden_state", ("token_embeddings",)),
    ModelKind.CROSS_ENCODER: ("sequence-classification", "logits", ("scores",)),
    ModelKind.CLASSIFIER: ("sequence-classification", "logits", ("scores",)),
}
"""Task, what of the model's output counts, and under which names it goes on. Of prompts: chat_template.py."""
_ONLY_TRANSFORMER = (ModelKind.CROSS_ENCODER, ModelKind.CLASSIFIER, ModelKind.TOKEN_CLASSIFIER)
_READ_OF_TRANSFORMER = (
    *("max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name"),
    *("processing_kwargs", "unpad_inputs"),
)
_READ_OF_MODEL = (
    *("__version__", "model_type", "requirements", "prompts", "default_prompt_name", "similarity_fn_name"),
    *("truncate_dim", "activation_fn", "keep_in_fp32_modules"),
)
"""`activation_fn`: one label's score is a sigmoid here, and says so. `keep_in_fp32_modules`: `engine.dtype` decides."""
_READ_OF_PYLATE = (
    *("query_prefix", "document_prefix", "query_length", "document_length", "do_query_expansion"),
    *("attend_to_expansion_tokens", "skiplist_words"),
)
_PROCESSING = ("padding", "return_tensors", "pad_to_multiple_of", "logits_to_keep")
_MODEL_TYPES: Mapping[ModelKind, tuple[str, ...]] = {
    ModelKind.EMBEDDING: ("SentenceTransformer",),
    ModelKind.LATE_INTERACTION: ("ColBERT", "SentenceTransformer"),
    ModelKind.CROSS_ENCODER: ("CrossEncoder",),
    ModelKind.CLASSIFIER: ("CrossEncoder",),
    ModelKind.DECODER_RERANKER: ("CrossEncoder",),
}
_COSINE = ("cosine", "maxsim")
_DOT = ("dot", "dot_score", "dot_product")


def stated_object(files: ModelFiles, name: str) -> Mapping[str, Any]:
    """A JSON file of the folder; empty where there is none. Raises SettingsInvalid unless it is an object."""
    stated = files.json(name)
    if not isinstance(stated, Mapping):
        raise files.refuse(f"{name} must be an object")
    return stated


def check_sentence_files(files: ModelFiles, config: Mapping[str, Any], kind: ModelKind) -> None:
    """Raises SettingsInvalid for what changes a model of this kind and is not read; `config`: as it is in force."""
    if kind is ModelKind.CUSTOM:
        return  # what its numbers mean is the IO processor's matter
    _check_modules(files, kind)
    _check_transformer(files, config, kind)
    _check_model(files, kind)


def check_names(files: ModelFiles, name: str, stated: Mapping[str, Any], feature: str) -> None:
    """Raises SettingsInvalid where a module, whose config is `name`, takes or gives something else than `feature`."""
    for key in ("module_input_name", "module_output_name"):
        if (found := stated.get(key) or feature) != feature:
            raise files.refuse(f"{name} says {key} {found!r}; {feature!r} is supported")


def check_pooling(files: ModelFiles, name: str, stated: Mapping[str, Any]) -> None:
    """Raises SettingsInvalid for a key of the pooling's own config.json (`name`) that is not known."""
    known = ("word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt")
    modes = {key: on for key, on in stated.items() if key.startswith("pooling_mode_")}
    _check_keys(files, name, stated, (*known, *modes))


def check_processing(files: ModelFiles) -> None:
    """Raises SettingsInvalid for what is passed on with every text, unless it only fills texts up to one length."""
    stated = files.sentence_config().get("processing_kwargs") or {}
    for part in ("common", "text"):
        for key, value in (stated.get(part) or {}).items():
            if key not in _PROCESSING and not (key == "truncation" and value in (True, "longest_first", "only_second")):
                raise files.refuse(
                    f"{files.sentence_config_name} asks for {key} {value!r} of every text, which is not supported"
                )


def compares_by_cosine(files: ModelFiles, *, length_1: bool) -> bool:
    """Whether its authors compare vectors by cosine, or by what is the same for vectors of length 1.

    `length_1`: the model itself brings them to that. Raises SettingsInvalid for a measure that is not known.
    """
    stated = str(stated_object(files, MODEL).get("similarity_fn_name") or "cosine").lower()
    if stated not in (*_COSINE, *_DOT, "euclidean", "manhattan"):
        raise files.refuse(f"{MODEL} says similarity_fn_name {stated!r}, which is not known; cosine is supported")
    return stated in _COSINE or (stated in _DOT and length_1)


def _check_modules(files: ModelFiles, kind: ModelKind) -> None:
    for module in files.modules():
        name, path = str(module.get("type", "")), str(module.get("path", ""))
        if not name.startswith(_PACKAGES):
            raise files.refuse(f"{MODULES} names {name!r}, code of its own, which is not run")
        last = name.rsplit(".", 1)[-1]
        if last == "Transformer" and path not in ("", "."):
            raise files.refuse(
                f"{MODULES} has the model itself in {path}: put the files of that folder beside {MODULES}, with an "
                "empty path"
            )
        if last == "Normalize":
            stated = stated_object(files, f"{path}/config.json")
            _check_keys(files, f"{path}/config.json", stated, ("module_input_name", "module_output_name"))
            check_names(files, f"{path}/config.json", stated, "sentence_embedding")
        if last != "Transformer" and kind in _ONLY_TRANSFORMER:
            raise files.refuse(f"{MODULES} puts {last} behind the model, which is not supported behind a head")


def _check_transformer(files: ModelFiles, config: Mapping[str, Any], kind: ModelKind) -> None:
    stated = files.sentence_config()
    _check_keys(files, files.sentence_config_name, stated, (*_READ_OF_TRANSFORMER, *_ONE_OF_LOADING))
    tokenizer = dict(stated_object(files, "tokenizer_config.json"))
    if stated.get("max_seq_length") is not None:
        tokenizer["model_max_length"] = stated["max_seq_length"]
    for name, part in _ONE_OF_LOADING.items():
        same = {"config_args": config, "tokenizer_args": tokenizer}.get(part, {})
        harmless, fix = _LOADING[part]
        for key, value in (stated.get(name) or {}).items():
            if key not in (*harmless, *_OVERRIDDEN) and same.get(key) != value and not _is_neutral(key, value):
                raise files.refuse(
                    f"{files.sentence_config_name} loads it with {name} {key} {value!r}, which is not read: {fix}"
                )
    if kind not in _OUTPUTS:
        return
    task, output, names = _OUTPUTS[kind]
    if (found := stated.get("transformer_task") or task) != task:
        raise files.refuse(
            f"{files.sentence_config_name} says transformer_task {found!r}; for this architecture {task!r} is supported"
        )
    if stated.get("modality_config") is not None:
        right = {"method": "forward", "method_output_name": output}
        if (found := stated["modality_config"].get("text")) not in (right, right | {"method_output_name": [output]}):
            raise files.refuse(
                f"{files.sentence_config_name} says modality_config {found} of texts; {right} is supported"
            )
    if (found := stated.get("module_output_name") or names[0]) not in names:
        raise files.refuse(f"{files.sentence_config_name} says module_output_name {found!r}; {names[0]!r} is supported")
    check_processing(files)


def _is_neutral(key: str, value: Any) -> bool:
    """A value by which nothing changes: the pooler's vector is not asked for, and texts are cut at the right."""
    return (key, value) in (
        *(("add_pooling_layer", False), ("add_pooling_layer", True), ("truncation_side", "right")),
        ("output_hidden_states", False),
    )


def _check_model(files: ModelFiles, kind: ModelKind) -> None:
    stated = stated_object(files, MODEL)
    late = kind is ModelKind.LATE_INTERACTION
    _check_keys(files, MODEL, stated, (*_READ_OF_MODEL, *(_READ_OF_PYLATE if late else ())))
    types = _MODEL_TYPES.get(kind)
    if types and (found := stated.get("model_type") or types[0]) not in types:
        raise files.refuse(f"{MODEL} says model_type {found!r}; for this architecture {types[0]!r} is supported")
    if stated.get("truncate_dim") is not None:
        raise files.refuse(
            f"{MODEL} cuts vectors to truncate_dim {stated['truncate_dim']}: leave it out, and ask with `dimensions`"
        )
    prompts = {name: prompt for name, prompt in (stated.get("prompts") or {}).items() if prompt}
    if kind in _ONLY_TRANSFORMER and (prompt := prompts.get(stated.get("default_prompt_name"))):
        raise files.refuse(f"{MODEL} puts {prompt!r} before every text (default_prompt_name), which is not supported")
    for name, prompt in prompts.items() if late else ():
        if prompt != stated.get(f"{name}_prefix"):
            raise files.refuse(f"{MODEL} has the prompt {name} {prompt!r} beside its markers, which is not supported")


def _check_keys(files: ModelFiles, name: str, stated: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = sorted(key for key, value in stated.items() if key not in known and value not in (None, {}, [], ""))
    if unknown:
        raise files.refuse(f"{name} says {unknown[0]} {stated[unknown[0]]!r}, which is not read: leave it out")
