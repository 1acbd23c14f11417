"""Translates the chain of samplers of a request of llama.cpp, one sampler after the other."""

from __future__ import annotations

from typing import Any

from ._request_checks import AT_LEAST_1, check_value, single, text, unsupported
from .request_parameters import LlamaCppRequest
from .request_processing import FilterStep

_FILTERS_AND_TEMPERATURE = "the filters and the temperature"


class Chain:
    """The state of a translation that goes through llama.cpp's samplers, with a method for each
    sampler."""

    def __init__(self, given: LlamaCppRequest, top_k: int) -> None:
        self.given = given
        self.k = top_k
        self.values: dict[str, Any] = {}
        self.adjustments: list[str] = []
        self.differences: list[str] = []
        self.differences_of_order: list[str] = []  #: that a filter chain does not have

    def _temperature_follows(self) -> bool:
        """Returns true if a later temperature divides the logits that a filter reads."""
        follows = "temperature" in self.given.samplers and "temperature" not in self.values
        return follows and self.given.temp > 0 and self.given.temp != 1

    def _applied_before(self, sampler: str, filters: set[str], steps: str) -> None:
        """Adds a difference if one of `filters`, or a temperature that has divided the logits, comes
        before a sampler that `sample` applies before `steps`."""
        if self.values.get("temperature", 1) != 1 or self.values.keys() & filters:
            found = self.differences if sampler == "dry" else self.differences_of_order
            found.append(
                f"{sampler} comes after other samplers in the chain; sample applies it before {steps}"
            )

    def penalties(self) -> None:
        given = self.given
        if given.penalty_last_n == 0:
            return
        before = self.values.keys() - {"filter_apply_order"}
        of_penalties = {
            "repetition_penalty": given.penalty_repeat,
            "frequency_penalty": given.penalty_freq,
            "presence_penalty": given.penalty_present,
        }
        self.values |= {**of_penalties, "penalty_window": given.penalty_last_n}
        if before and tuple(of_penalties.values()) != (1, 0, 0):
            self.differences.append(
                "penalties come after other samplers in the chain; sample applies them first"
            )

    def top_n_sigma(self) -> None:
        if self.given.top_n_sigma <= 0:
            return
        if self.values.keys() & {"top_k", "top_p", "min_p", "typical_p", "xtc_probability"}:
            self.differences_of_order.append(
                "top_n_sigma comes after other filters in the chain; sample applies it before them"
            )
        self.values["top_n_sigma"] = self.given.top_n_sigma

    def filters_of_greedy(self) -> dict[str, float]:
        """Returns the filters of a greedy request that may ban the largest logit, unless another
        sampler has left only this logit before."""
        samplers = self.given.samplers
        leaves_one = {
            "top_k": self.values.get("top_k") == 1,
            "top_p": self.values.get("top_p") == 0,
            "temperature": self.given.temp <= 0,
        }
        filters = {}
        for sampler, name in (("typ_p", "typical_p"), ("xtc", "xtc_probability")):
            before = samplers[: samplers.index(sampler)] if sampler in samplers else ()
            if name in self.values and not any(leaves_one.get(each, False) for each in before):
                filters[name] = self.values[name]
        return filters

    def dry(self) -> None:
        given = self.given
        if given.dry_multiplier == 0 or given.dry_base < 1 or given.dry_penalty_last_n == 0:
            return
        check_value("dry_allowed_length", given.dry_allowed_length, AT_LEAST_1)
        filters = {"top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability"}
        self._applied_before("dry", filters, "them")
        self.values |= {
            "dry_multiplier": given.dry_multiplier,
            "dry_base": given.dry_base,
            "dry_allowed_length": given.dry_allowed_length,
            "dry_window": given.dry_penalty_last_n,
            "dry_breakers": given.dry_breakers,
        }

    def xtc(self) -> None:
        given = self.given
        if given.xtc_probability <= 0 or given.xtc_threshold > 0.5:
            return
        self.differences.append(
            "llama.cpp leaves ties of xtc to its sort; sample keeps ties of the least probable choice"
        )
        self._applied_before("xtc", {"top_k", "top_p", "min_p"}, _FILTERS_AND_TEMPERATURE)
        self.values["xtc_probability"] = given.xtc_probability
        self.values["xtc_threshold"] = single(given.xtc_threshold)

    def typ_p(self) -> None:
        given = self.given
        if given.typ_p >= 1:
            return
        self.differences.append(
            "llama.cpp goes on until the mass exceeds typ_p, leaves ties to its sort, and keeps the "
            "likeliest tokens if a logit is -inf; sample stops at the mass, and keeps ties"
        )
        filters = {"top_k", "top_p", "min_p", "xtc_probability"}
        self._applied_before("typ_p", filters, _FILTERS_AND_TEMPERATURE)
        self.values["typical_p"] = max(given.typ_p, 0)

    def top_k(self) -> None:
        if self.k == 0:
            return
        self.values["top_k"] = self.k
        if "top_p" in self.values:
            self.values["filter_apply_order"] = "joint"

    def top_p(self) -> None:
        if self.given.top_p >= 1:
            return
        self.values["top_p"] = self.given.top_p
        if self._temperature_follows():
            self.differences_of_order.append(
                "top_p is measured before the temperature; sample measures it after that"
            )

    def min_p(self) -> None:
        given = self.given
        if given.min_p <= 0:
            return
        self.values["min_p"] = given.min_p
        if self._temperature_follows():
            after = single(given.min_p ** (1 / given.temp))
            self.values["min_p"] = after
            self.adjustments.append(
                f"min_p {text(given.min_p)} before the temperature is {text(after)} after it"
            )
        if "top_p" in self.values:
            self.differences_of_order.append(
                "top_p is measured before min_p; sample measures it on the tokens that min_p keeps"
            )

    def temperature(self) -> None:
        given = self.given
        if given.dynatemp_range > 0:
            if given.temp <= 0:
                allowed = "<= 0 where temp is at most 0"
                raise unsupported("dynatemp_range", text(given.dynatemp_range), allowed)
            # Here the entropy is that of what a filter chain leaves, or processing without one.
            if self.values.keys() & {"top_k", "top_p", "min_p"}:
                self.differences_of_order.append(
                    "the temperature follows the entropy of what other filters left; sample takes the "
                    "entropy before top_k, top_p and min_p"
                )
            of_filters = {"top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc"}
            after = given.samplers[list(given.samplers).index("temperature") + 1 :]
            if of_filters & set(after):
                self.differences.append(
                    "filters come after the temperature that follows the entropy; sample takes the "
                    "entropy after them"
                )
            self.values["dynatemp_range"] = given.dynatemp_range
            self.values["dynatemp_exponent"] = given.dynatemp_exponent
        self.values["temperature"] = given.temp

    def adaptive_p(self) -> None:
        """Does nothing: the engine takes it as the last sampler, wherever it stands."""

    def in_order(self) -> dict[str, Any]:
        """Returns the values of a request whose filters are a filter chain, in the order of the
        samplers, after all of them have been translated."""
        given = self.given
        fields: dict[str, tuple[FilterStep, str, Any]] = {
            "top_n_sigma": ("top_n_sigma", "top_n_sigma", given.top_n_sigma),
            "typ_p": ("typical_p", "typical_p", max(given.typ_p, 0)),
            "xtc": ("xtc", "xtc_probability", given.xtc_probability),
            "temperature": ("temperature", "chain_temperature", given.temp),
            "top_k": ("top_k", "chain_top_k", self.k),
            "top_p": ("top_p", "chain_top_p", given.top_p),
            "min_p": ("min_p", "chain_min_p", given.min_p),
        }
        in_chain = {name.removeprefix("chain_") for _, name, _ in fields.values()} - {"temperature"}
        values = {
            n: v for n, v in self.values.items() if n not in {*in_chain, "filter_apply_order"}
        }
        steps: list[FilterStep] = []
        for sampler in given.samplers:
            if sampler == "temperature" and given.temp <= 0:
                break  # only the largest logit is left
            if sampler not in fields:
                continue
            step, name, value = fields[sampler]
            if name.removeprefix("chain_") in self.values:
                steps.append(step)
                values[name] = value
        values["filter_chain"] = tuple(steps)
        if values.get("chain_top_k", 0) > 1:
            self.differences.append(
                "llama.cpp keeps exactly top_k logits; a filter chain keeps all that equal the last"
            )
        return values

    def with_adaptive_p(self, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Returns the values of in_order() with adaptive_p as the last step, and the adjustments. The
        chain has the temperature, so that the draw has none."""
        given = self.given
        if "dynatemp_range" in values:
            allowed = "<= 0 with adaptive_p, which comes after the temperature"
            raise unsupported("dynatemp_range", text(given.dynatemp_range), allowed)
        decay = min(max(given.adaptive_decay, 0.0), single(0.99))
        clamped = f"adaptive_decay {text(given.adaptive_decay)} is clamped to [0, 0.99]"
        adapted = {
            "temperature": 1.0,
            "filter_chain": (*values["filter_chain"], "adaptive_p"),
            "adaptive_target": given.adaptive_target,
            "adaptive_decay": decay,
        }
        return values | adapted, [clamped] if decay != given.adaptive_decay else []

    def of_mirostat(self) -> tuple[dict[str, Any], list[str]]:
        """Returns the values of a request with Mirostat, and the differences. The temperature is the
        only other sampler."""
        given = self.given
        if given.temp <= 0:
            return {"greedy": True, "temperature": 0.0}, []
        last: FilterStep = "top_k" if given.mirostat == 1 else "epsilon_cutoff"
        values = {
            "temperature": given.temp,
            "filter_chain": ("temperature", last),
            "chain_temperature": given.temp,
            "mirostat": given.mirostat,
            "mirostat_tau": given.mirostat_tau,
            "mirostat_eta": given.mirostat_eta,
        }
        exactly_k = "llama.cpp keeps exactly k logits; a filter chain keeps all that equal the last"
        return values, [exactly_k] if given.mirostat == 1 else []
