"""Near duplicates among texts: a pooling model that vLLM does not have, and the IO processor that asks it.

What vLLM's entry points call is here, and imports nothing that is slow: both are called in every process of vLLM, and
more than once.
"""


def register() -> None:
    """Entry point of `vllm.general_plugins`: make the model known, by name, so that only who needs it imports torch."""
    from transformers import AutoConfig  # noqa: PLC0415
    from vllm import ModelRegistry  # noqa: PLC0415

    from near_duplicates.config import SimHashConfig  # noqa: PLC0415

    AutoConfig.register(SimHashConfig.model_type, SimHashConfig, exist_ok=True)
    ModelRegistry.register_model("SimHashModel", "near_duplicates.model:SimHashModel")


def io_processor() -> str:
    """Entry point of `vllm.io_processor_plugins`: where the class is."""
    return "near_duplicates.processor.NearDuplicatesProcessor"
