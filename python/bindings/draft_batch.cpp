#include "python/bindings/draft_batch.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "harness/contract/call_arrays.h"
#include "harness/contract/serving_arrays.h"
#include "python/bindings/bindings.h"
#include "python/bindings/lent_call.h"
#include "python/bindings/token_ids.h"

namespace fairdraw::python {

namespace nb = nanobind;

namespace {

constexpr const char* kCallable = "the callable";
constexpr auto kFloat = nb::dtype<float>();
constexpr auto kInt = nb::dtype<std::int32_t>();

// Counts the accepted tokens of a row that ends at its first -1. The last token before the end
// comes from the target and is not counted.
std::int32_t accepted_by_tokens(const std::int32_t* tokens, std::int64_t max_draft) {
  const std::int32_t* const end = std::find(tokens, tokens + max_draft + 1, -1);
  return static_cast<std::int32_t>(std::max<std::ptrdiff_t>(end - tokens - 1, 0));
}

std::string take_tokens(nb::handle result, const DraftCall& call) {
  return take_ids(result, {.outputs = call.requests,
                           .samples = call.max_draft + 1,
                           .ids = call.tokens,
                           .who = kCallable,
                           .or_instead = ", or a tuple of these and numbers of accepted drafts (or "
                                         "the batch, where out_tokens and out_accepted were "
                                         "written)"});
}

// The returned tokens give the number of accepted drafts, unless the callable returns that number
// too.
std::string take_answer(nb::handle result, const DraftCall& call) {
  std::vector<std::int32_t> accepted(static_cast<std::size_t>(call.requests));
  if (nb::isinstance<nb::tuple>(result)) {
    if (nb::len(result) != 2) {
      return fmt::format(
          "{} returned a tuple of {}; tokens and numbers of accepted drafts are "
          "needed",
          kCallable, nb::len(result));
    }
    if (std::string wrong = take_tokens(result[0], call); !wrong.empty()) return wrong;
    std::string wrong = take_ids(result[1], {.outputs = call.requests,
                                             .samples = 1,
                                             .ids = accepted.data(),
                                             .who = kCallable,
                                             .all = "numbers of accepted drafts",
                                             .kind = "numbers of accepted drafts",
                                             .one = "number"});
    if (!wrong.empty()) return wrong;
  } else {
    if (std::string wrong = take_tokens(result, call); !wrong.empty()) return wrong;
    for (std::int64_t b = 0; b < call.requests; ++b) {
      accepted[static_cast<std::size_t>(b)] =
          accepted_by_tokens(call.tokens + b * (call.max_draft + 1), call.max_draft);
    }
  }
  if (call.accepted != nullptr) std::copy(accepted.begin(), accepted.end(), call.accepted);
  return {};
}

std::string run_call(Callable& callable, const DraftCall& call) {
  Loan loan;
  std::string refused;
  {
    const nb::object view =
        nb::cast(DraftBatchView(call, callable.arrays, loan), nb::rv_policy::move);
    nb::object result;
    refused = guarded(kCallable, [&] {
      result = callable.verifier(view);
      return std::string();
    });
    if (refused.empty() && !result.is(view)) {
      refused = guarded(kCallable, [&] { return take_answer(result, call); });
    }
    nb::inst_ptr<DraftBatchView>(view)->close();
  }
  // If positions after a rejection are not tested, the draft positions that pass are the emitted
  // drafts.
  if (call.passed != nullptr && call.accepted != nullptr &&
      !callable.description.drafts.counts_all) {
    std::copy_n(call.accepted, call.requests, call.passed);
  }
  return given_back(kCallable, "batch", loan, callable.retained, std::move(refused));
}

const char* name_of_dtype(const DraftBatchView& view) {
  constexpr std::array kNames = {"float32", "float16", "bfloat16"};
  return kNames.at(view.get().dtype);
}

nb::object per_request(const DraftBatchView& view, const void* data, nb::dlpack::dtype dtype,
                       bool writable = false) {
  return view.vector(data, view.get().requests, dtype, writable);
}

nb::object per_seed(const DraftBatchView& view, const void* data) {
  const DraftCall& call = view.get();
  return view.vector(data, call.seed_is_scalar ? 1 : call.requests, view.unsigned_64(), false);
}

// [requests, columns]
nb::object per_position(const DraftBatchView& view, const void* data, std::int64_t columns,
                        nb::dlpack::dtype dtype, bool writable = false) {
  return view.matrix(data, view.get().requests, columns, columns, dtype, writable);
}

nb::object draft_rows(const DraftBatchView& view, std::uint32_t law) {
  const DraftCall& call = view.get();
  return view.cube(call.draft_law == law ? call.draft : nullptr, call.requests, call.max_draft,
                   call.vocab, view.value_dtype(call.dtype));
}

}  // namespace

const DraftCall& DraftBatchView::get() const {
  if (call_ != nullptr) return *call_;
  throw std::runtime_error(
      "the call of this batch has ended: its arrays are valid for one call; copy arrays that are "
      "needed later");
}

std::string call_verifier(Callable& callable, const fairdraw_chain& chain) {
  return run_call(callable, DraftCall(chain));
}

std::string call_verifier(Callable& callable, const fairdraw_verification& call) {
  return run_call(callable, DraftCall(call));
}

void bind_draft_batch(nb::module_& module) {
  using View = DraftBatchView;
  using Call = DraftCall;
  const auto read = [](auto member) { return [member](const View& v) { return v.get().*member; }; };
  const auto floats = [](auto member) {
    return [member](const View& v) { return per_request(v, v.get().*member, kFloat); };
  };
  const auto integers = [](auto member) {
    return [member](const View& v) { return per_request(v, v.get().*member, kInt); };
  };
  const auto written = [](auto member) {
    return [member](const View& v) { return per_request(v, v.get().*member, kInt, true); };
  };
  const auto words = [](auto member) {
    return [member](const View& v) {
      return per_position(v, v.get().*member, v.get().max_draft, v.unsigned_64());
    };
  };
  nb::class_<View>(module, "DraftBatch",
                   "Requests with drafts, as a callable under test gets them.")
      .def_prop_ro("input", [](const View& v) { return v.get().from_probs ? "probs" : "logits"; })
      .def_prop_ro("dtype", name_of_dtype)
      .def_prop_ro("requests", read(&Call::requests))
      .def_prop_ro("max_draft", read(&Call::max_draft))
      .def_prop_ro("vocab", read(&Call::vocab))
      .def_prop_ro("tie_rule",
                   [](const View& v) { return v.get().tie_rule == 0 ? "keep_all" : "lowest_id"; })
      .def_prop_ro(
          "filter_apply_order",
          [](const View& v) { return v.get().filter_order == 0 ? "top_k_first" : "joint"; })
      .def_prop_ro("seed_is_scalar", read(&Call::seed_is_scalar))
      .def_prop_ro("target",
                   [](const View& v) {
                     const Call& c = v.get();
                     return v.cube(c.target, c.requests, c.max_draft + 1, c.vocab,
                                   v.value_dtype(c.dtype));
                   })
      .def_prop_ro("draft_tokens",
                   [](const View& v) {
                     return per_position(v, v.get().draft_tokens, v.get().max_draft, kInt);
                   })
      .def_prop_ro("draft_lengths", integers(&Call::draft_lengths))
      .def_prop_ro("draft_probs", [](const View& v) { return draft_rows(v, 1); })
      .def_prop_ro("draft_logits", [](const View& v) { return draft_rows(v, 2); })
      .def_prop_ro("temperature", floats(&Call::temperature))
      .def_prop_ro("top_k", integers(&Call::top_k))
      .def_prop_ro("top_p", floats(&Call::top_p))
      .def_prop_ro("min_p", floats(&Call::min_p))
      .def_prop_ro("draft_temperature", floats(&Call::draft_temperature))
      .def_prop_ro("draft_top_k", integers(&Call::draft_top_k))
      .def_prop_ro("draft_top_p", floats(&Call::draft_top_p))
      .def_prop_ro("draft_min_p", floats(&Call::draft_min_p))
      .def_prop_ro("allowed",
                   [](const View& v) {
                     const Call& c = v.get();
                     return v.cube(c.allowed, c.requests, c.max_draft + 1,
                                   harness::words_for(c.vocab), v.unsigned_32());
                   })
      .def_prop_ro(
          "active",
          [](const View& v) { return per_request(v, v.get().active, nb::dtype<std::uint8_t>()); })
      .def_prop_ro("seed", [](const View& v) { return per_seed(v, v.get().seed); })
      .def_prop_ro("offset", [](const View& v) { return per_seed(v, v.get().offset); })
      .def_prop_ro("accept_words", words(&Call::accept_words))
      .def_prop_ro("recover_words", words(&Call::recover_words))
      .def_prop_ro(
          "bonus_words",
          [](const View& v) { return per_request(v, v.get().bonus_words, v.unsigned_64()); })
      .def_prop_ro("out_tokens",
                   [](const View& v) {
                     return per_position(v, v.get().tokens, v.get().max_draft + 1, kInt, true);
                   })
      .def_prop_ro("out_accepted", written(&Call::accepted))
      .def_prop_ro("out_passed", written(&Call::passed))
      .def_prop_ro("out_statuses", written(&Call::statuses));
}

}  // namespace fairdraw::python
