"""Makes a tiny Llama with random weights, as files that engines' servers load.

The model's vocabulary has words (" w000"), and tokens that a text must not contain: special tokens
and bytes. The first number of the hidden state is a constant, because no layer writes to it. The
column of the output matrix that reads this number is a bias of the logits. With this bias, words
have a Zipf-like distribution. Tokens that are not words are never drawn, so that a text ends only
at max_tokens.
"""

import json
from pathlib import Path

import numpy as np

HIDDEN, HEADS, LAYERS, INNER = 64, 4, 2, 128
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = [f"w{word:03d}" for word in range(253)]
VOCAB = len(SPECIAL) + len(BYTES) + len(WORDS)
FIRST_WORD = len(SPECIAL) + len(BYTES)
EPSILON = 1e-5
#: Value of the first number of the hidden state. The other numbers of the hidden state are about 1,
#: so that the first number is a fifth of the norm.
CONSTANT = 4.0
#: Standard deviation of a logit over contexts. A logit's mean falls by 0.7 per natural logarithm of
#: its rank.
SPREAD, DECAY = 3.5, 0.7
#: Logit of tokens that must not be drawn, which is exp(-60) relative to the other tokens.
NEVER = -60.0
CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def weights():
    """Returns float32 arrays by transformers' names. Matrices are [outputs, inputs]."""
    random = np.random.default_rng(22)

    def matrix(outputs, inputs, deviation):
        return (deviation * random.standard_normal((outputs, inputs))).astype(np.float32)

    def writes(inputs):  # makes a matrix whose results a layer adds to the hidden state
        found = matrix(HIDDEN, inputs, inputs**-0.5)
        found[0] = 0
        return found

    ones = np.ones(HIDDEN, np.float32)
    embedding = matrix(VOCAB, HIDDEN, 1.0)
    embedding[:, 0] = CONSTANT
    found = {"model.embed_tokens.weight": embedding}
    for layer in range(LAYERS):
        place = f"model.layers.{layer}."
        for name in ("q", "k", "v"):
            found[f"{place}self_attn.{name}_proj.weight"] = matrix(HIDDEN, HIDDEN, HIDDEN**-0.5)
        found[f"{place}self_attn.o_proj.weight"] = writes(HIDDEN)
        found[f"{place}mlp.gate_proj.weight"] = matrix(INNER, HIDDEN, HIDDEN**-0.5)
        found[f"{place}mlp.up_proj.weight"] = matrix(INNER, HIDDEN, HIDDEN**-0.5)
        found[f"{place}mlp.down_proj.weight"] = writes(INNER)
        found[f"{place}input_layernorm.weight"] = ones
        found[f"{place}post_attention_layernorm.weight"] = ones
    found["model.norm.weight"] = ones
    # After normalisation the constant is between CONSTANT / 2 and CONSTANT, and the other numbers
    # are about 1.
    output = matrix(VOCAB, HIDDEN, SPREAD * HIDDEN**-0.5)
    ranks = random.permutation(len(WORDS)) + 1
    output[FIRST_WORD:, 0] = -DECAY * np.log(ranks) / CONSTANT
    output[:FIRST_WORD, 0] = 2 * NEVER / CONSTANT
    found["lm_head.weight"] = output
    return found


#: Maps transformers' names of a layer's matrices to GGUF's names.
LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight"


def write_gguf(path: Path) -> Path:
    """Writes the tiny model for llama.cpp. Prompts become bytes, because the tokeniser cannot merge
    any words.

    (llama.cpp's rotary embedding pairs other numbers than that of transformers, so that the two
    models differ.)
    """
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(2048)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCAB)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        [*SPECIAL, *BYTES, *("\N{LOWER ONE EIGHTH BLOCK}" + word for word in WORDS)]
    )
    writer.add_token_scores([0.0] * VOCAB)
    kinds = gguf.TokenType
    writer.add_token_types(
        [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL]
        + [kinds.BYTE] * len(BYTES)
        + [kinds.NORMAL] * len(WORDS)
    )
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT)
    for name, values in weights().items():
        writer.add_tensor(gguf_name(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_transformers(folder: Path, **generation) -> Path:
    """Writes the tiny model for transformers, with these defaults for generation."""
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=2048,
        rms_norm_eps=EPSILON,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict({name: torch.from_numpy(each) for name, each in weights().items()})
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps(generation))
    # Prompts become characters. (Without known characters the server's stop strings would fail.)
    characters = [
        chr(b) if chr(b).isascii() and chr(b).isprintable() else BYTES[b] for b in range(256)
    ]
    names = [*SPECIAL, *characters, *(" " + word for word in WORDS)]
    words = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [], unk_token="<unk>"))
    words.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return folder
