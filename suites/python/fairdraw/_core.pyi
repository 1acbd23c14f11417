"""The compiled module: what the other files of the package are made of. Not for users."""

from collections.abc import Callable
from typing import Any

__version__: str

class Batch:
    """What a callable under test is given.

    Arrays are views of the judge's memory: read-only but for the out_* ones, and valid until the
    callable returns. An optional array that is not there is None.
    """

    @property
    def input(self) -> str:
        """ "logits", or "probs": then `logits` holds probabilities and temperature means nothing."""
    @property
    def dtype(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def vocab(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def num_samples(self) -> int: ...
    @property
    def tie_rule(self) -> str: ...
    @property
    def filter_apply_order(self) -> str: ...
    @property
    def seed_is_scalar(self) -> bool: ...
    @property
    def logits(self) -> Any:
        """[rows, vocab] of `dtype`; rows may lie further apart than vocab."""
    @property
    def temperature(self) -> Any:
        """[rows] float32, as are top_p and min_p."""
    @property
    def top_k(self) -> Any:
        """[rows] int32."""
    @property
    def top_p(self) -> Any: ...
    @property
    def min_p(self) -> Any: ...
    @property
    def allowed(self) -> Any:
        """[rows, ceil(vocab / 32)] packed words, or None."""
    @property
    def active(self) -> Any:
        """[rows] uint8, 0 for padding, or None."""
    @property
    def indices(self) -> Any:
        """[outputs] int32: output i samples row indices[i]; None: row i."""
    @property
    def seed(self) -> Any:
        """[outputs] uint64 (torch: the same bits as int64), [1] where seed_is_scalar."""
    @property
    def offset(self) -> Any: ...
    @property
    def words(self) -> Any:
        """[outputs, num_samples] random words to draw with, or None."""
    @property
    def out_tokens(self) -> Any:
        """[outputs, num_samples] int32, to be written by a callable that returns the batch."""
    @property
    def out_statuses(self) -> Any: ...
    @property
    def out_support_size(self) -> Any: ...
    @property
    def out_logprob(self) -> Any: ...
    @property
    def out_logprob_filtered(self) -> Any: ...
    @property
    def out_mask(self) -> Any: ...
    @property
    def out_probs(self) -> Any: ...
    @property
    def report_mode(self) -> str:
        """ "raw_logits", "raw_logprobs", "processed_logits" or "processed_logprobs"."""
    @property
    def rank_rule(self) -> str:
        """ "position", or "at_least": how many values are at least the token's own."""
    @property
    def top_n(self) -> int: ...
    @property
    def out_report_values(self) -> Any:
        """[outputs, num_samples] float32: of the tokens, in `report_mode`; None: not asked for."""
    @property
    def out_report_ranks(self) -> Any: ...
    @property
    def out_report_top_ids(self) -> Any:
        """[outputs, top_n] int32, -1 where there are less."""
    @property
    def out_report_top_values(self) -> Any: ...
    @property
    def out_report_all(self) -> Any:
        """[rows, vocab] float32."""

class RunRecord:
    @property
    def verdict(self) -> Any: ...
    @property
    def exit_code(self) -> int: ...
    def to_json(self) -> str: ...
    def summary(self) -> str: ...
    def lines(self) -> list[str]: ...
    def write(self, folder: str) -> None: ...

def run(
    function: Callable[[Any], Any] | str,
    name: str,
    version: str,
    semantics: str,
    suite: str,
    arrays: str,
    abilities: list[str],
    lacks: list[str],
    randomness: list[str],
    logits: list[tuple[str, str]],
    case: str | None,
    seed: str | None,
    seed_from: str | None,
    jobs: int,
    progress: Callable[[str, int, int], object] | None,
) -> RunRecord: ...
def case_ids(suite: str, logits: list[tuple[str, str]]) -> list[str]: ...
def profile_names() -> list[str]: ...
def ability_names() -> list[str]: ...
def filter_names() -> list[str]: ...
def promise_names() -> list[str]: ...
def suite_names() -> list[str]: ...
def builtin_sampler_names() -> list[str]: ...
def expected_token(
    logits: Any,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int,
    offset: int,
    /,
) -> int: ...
def batch_microseconds(function: Callable[[Any], Any], repeats: int, /) -> float: ...
def command_line(words: list[str], /) -> int: ...
def set_plugin_host(words: list[str], /) -> None: ...
def cuda_workspace_bytes(rows: int, /) -> int: ...
def why_no_cuda() -> str: ...
def softmax(*arguments: Any) -> None: ...
def draw(*arguments: Any) -> None: ...
def top_k_mask_logits(*arguments: Any) -> None: ...
def renorm_probs(*arguments: Any) -> None: ...
def sample(*arguments: Any) -> None: ...
def chain_speculative_sampling(*arguments: Any) -> None: ...
