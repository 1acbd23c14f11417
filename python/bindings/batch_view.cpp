#include "python/bindings/batch_view.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/adapters/sample_view.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/marks.h"
#include "harness/run/calls/request.h"
#include "python/bindings/bindings.h"
#include "reference/processing_model.h"

namespace fairdraw::python {

namespace nb = nanobind;

Arrays arrays_from_name(const std::string& name) {
  const std::vector<std::string> names = {"numpy", "torch"};
  if (name == names[0]) return Arrays::numpy;
  if (name == names[1]) return Arrays::torch;
  throw harness::UsageError(harness::unknown_name_message("arrays", name, names));
}

Loan::Loan() : state_(new State) {
  owner_ = nb::capsule(state_, [](void* pointer) noexcept {
    auto* const state = static_cast<State*>(pointer);
    state->ended = true;
    if (state->abandoned) delete state;
  });
}

Loan::~Loan() {
  owner_.reset();
  if (state_->ended) {
    delete state_;
  } else {
    state_->abandoned = true;
  }
}

bool Loan::still_held() {
  owner_.reset();
  return !state_->ended;
}

const fairdraw_batch& BatchView::get() const {
  if (batch_ != nullptr) return *batch_;
  throw std::runtime_error(
      "the call of this batch has ended: its arrays are valid for one call; copy arrays that are "
      "needed later");
}

nb::object LentArrays::array(const void* data, std::size_t axes, const std::size_t* shape,
                             const std::int64_t* strides, nb::dlpack::dtype dtype,
                             bool writable) const {
  if (data == nullptr) return nb::none();
  const int cpu = nb::device::cpu::value;
  void* const memory = const_cast<void*>(data);  // NOLINT: read-only unless `writable`, below
  const auto made = [&]<class Framework>(Framework) {
    if (writable) {
      return nb::object(
          nb::ndarray<Framework>(memory, axes, shape, loan_->owner(), strides, dtype, cpu).cast());
    }
    return nb::object(
        nb::ndarray<Framework, nb::ro>(data, axes, shape, loan_->owner(), strides, dtype, cpu)
            .cast());
  };
  // torch has no read-only tensors, so that the harness's guards find forbidden writes.
  if (arrays_ == Arrays::torch) {
    writable = true;
    return made(nb::pytorch{});
  }
  return made(nb::numpy{});
}

nb::object LentArrays::matrix(const void* data, std::int64_t rows, std::int64_t columns,
                              std::int64_t stride, nb::dlpack::dtype dtype, bool writable) const {
  const std::array<std::size_t, 2> shape = {static_cast<std::size_t>(rows),
                                            static_cast<std::size_t>(columns)};
  const std::array<std::int64_t, 2> strides = {stride, 1};
  return array(data, 2, shape.data(), strides.data(), dtype, writable);
}

nb::object LentArrays::cube(const void* data, std::int64_t first, std::int64_t second,
                            std::int64_t third, nb::dlpack::dtype dtype) const {
  const std::array<std::size_t, 3> shape = {static_cast<std::size_t>(first),
                                            static_cast<std::size_t>(second),
                                            static_cast<std::size_t>(third)};
  const std::array<std::int64_t, 3> strides = {second * third, third, 1};
  return array(data, 3, shape.data(), strides.data(), dtype, false);
}

nb::object LentArrays::vector(const void* data, std::int64_t size, nb::dlpack::dtype dtype,
                              bool writable) const {
  const auto length = static_cast<std::size_t>(size);
  const std::int64_t stride = 1;
  return array(data, 1, &length, &stride, dtype, writable);
}

nb::dlpack::dtype LentArrays::unsigned_64() const {
  return arrays_ == Arrays::torch ? nb::dtype<std::int64_t>() : nb::dtype<std::uint64_t>();
}

nb::dlpack::dtype LentArrays::unsigned_32() const {
  return arrays_ == Arrays::torch ? nb::dtype<std::int32_t>() : nb::dtype<std::uint32_t>();
}

nb::dlpack::dtype LentArrays::value_dtype(std::uint32_t dtype) const {
  using nb::dlpack::dtype_code;
  const auto code = [](dtype_code c) { return static_cast<std::uint8_t>(c); };
  switch (dtype) {
    case 0:
      return nb::dtype<float>();
    case 1:
      return {code(dtype_code::Float), 16, 1};
    default:  // NumPy has no bfloat16, so that its arrays hold the bits as integers
      return arrays_ == Arrays::torch ? nb::dlpack::dtype{code(dtype_code::Bfloat), 16, 1}
                                      : nb::dtype<std::uint16_t>();
  }
}

namespace {

constexpr auto kFloat = nb::dtype<float>();
constexpr auto kInt = nb::dtype<std::int32_t>();

nb::dlpack::dtype row_dtype(const BatchView& view) { return view.value_dtype(view.get().dtype); }

std::int64_t seeds_of(const fairdraw_batch& batch) {
  return batch.seed_is_scalar != 0 ? 1 : batch.outputs;
}

// [outputs, num_samples]
nb::object per_token(const BatchView& view, const void* data, nb::dlpack::dtype dtype,
                     bool writable) {
  const fairdraw_batch& batch = view.get();
  return view.matrix(data, batch.outputs, batch.num_samples, batch.num_samples, dtype, writable);
}

nb::dict fields_of(const reference::RowProcessing& row) {
  nb::dict fields;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) fields[#name] = row.name;
#include "fairdraw/processing_parameters.inc"
  fields["prompt"] = row.prompt;
  fields["output"] = row.output;
  std::vector<std::pair<std::int32_t, float>> bias;
  for (const auto& [id, value] : row.biases) bias.emplace_back(id, value);
  fields["bias"] = bias;
  fields["stop_ids"] = row.stop_ids;
  std::vector<std::vector<std::int32_t>> words;
  auto begin = row.bad_words.begin();
  for (const std::int32_t length : row.bad_word_lengths) {
    words.emplace_back(begin, begin + length);
    begin += length;
  }
  fields["bad_words"] = words;
  fields["allowed_ids"] = row.allowed_ids;
  fields["forced_tokens"] = row.forced_tokens;
  fields["dry_breakers"] = row.dry_breakers;
  return fields;
}

// Returns a RequestProcessing for each row. Precondition: the lists have no faults, as in calls for
// samplers that take no buffers.
nb::object processing_of_rows(const BatchView& view) {
  const fairdraw_batch& batch = view.get();
  const LogitsProcessing given = harness::processing_of(batch);
  if (!given.given()) return nb::none();
  const nb::object make =
      nb::module_::import_("fairdraw.request_processing").attr("RequestProcessing").attr("_of");
  nb::list rows;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    rows.append(make(fields_of(
        reference::processing_of_row(given, row, static_cast<std::size_t>(batch.vocab)))));
  }
  return rows;
}

const char* dtype_name(const BatchView& view) {
  constexpr std::array kNames = {"float32", "float16", "bfloat16"};
  return kNames.at(view.get().dtype);
}

}  // namespace

void bind_batch(nb::module_& module) {
  using View = BatchView;
  using Batch = fairdraw_batch;
  const auto read = [](auto member) { return [member](const View& v) { return v.get().*member; }; };
  const auto of_rows = [](auto member, nb::dlpack::dtype dtype) {
    return [=](const View& v) { return v.vector(v.get().*member, v.get().rows, dtype, false); };
  };
  const auto of_outputs = [](auto member, bool writable) {
    return
        [=](const View& v) { return v.vector(v.get().*member, v.get().outputs, kInt, writable); };
  };
  const auto of_seeds = [](auto member) {
    return [=](const View& v) {
      return v.vector(v.get().*member, seeds_of(v.get()), v.unsigned_64(), false);
    };
  };
  const auto of_tokens = [](auto member, nb::dlpack::dtype dtype) {
    return [=](const View& v) { return per_token(v, v.get().*member, dtype, true); };
  };
  const auto of_top = [](auto member, nb::dlpack::dtype dtype) {
    return [=](const View& v) {
      const Batch& b = v.get();
      return v.matrix(b.*member, b.outputs, b.top_n, b.top_n, dtype, true);
    };
  };
  const auto of_words = [](auto member, auto stride, bool writable) {
    return [=](const View& v) {
      const Batch& b = v.get();
      return v.matrix(b.*member, b.rows, harness::words_for(b.vocab), b.*stride, v.unsigned_32(),
                      writable);
    };
  };
  const auto of_values = [](auto member, auto stride) {
    return [=](const View& v) {
      const Batch& b = v.get();
      return v.matrix(b.*member, b.rows, b.vocab, b.*stride, kFloat, true);
    };
  };
  nb::class_<View>(module, "Batch", "A call, as a callable under test gets it.")
      .def_prop_ro("input", [](const View& v) { return v.get().input == 0 ? "logits" : "probs"; })
      .def_prop_ro("dtype", dtype_name)
      .def_prop_ro("rows", read(&Batch::rows))
      .def_prop_ro("vocab", read(&Batch::vocab))
      .def_prop_ro("outputs", read(&Batch::outputs))
      .def_prop_ro("num_samples", read(&Batch::num_samples))
      .def_prop_ro("tie_rule",
                   [](const View& v) { return v.get().tie_rule == 0 ? "keep_all" : "lowest_id"; })
      .def_prop_ro(
          "filter_apply_order",
          [](const View& v) { return v.get().filter_order == 0 ? "top_k_first" : "joint"; })
      .def_prop_ro("seed_is_scalar", [](const View& v) { return v.get().seed_is_scalar != 0; })
      .def_prop_ro("logits",
                   [](const View& v) {
                     const Batch& b = v.get();
                     return v.matrix(b.logits, b.rows, b.vocab, b.row_stride, row_dtype(v), false);
                   })
      .def_prop_ro("temperature", of_rows(&Batch::temperature, kFloat))
      .def_prop_ro("top_k", of_rows(&Batch::top_k, kInt))
      .def_prop_ro("top_p", of_rows(&Batch::top_p, kFloat))
      .def_prop_ro("min_p", of_rows(&Batch::min_p, kFloat))
      .def_prop_ro("allowed", of_words(&Batch::allowed, &Batch::allowed_stride, false))
      .def_prop_ro("processing", processing_of_rows)
      .def_prop_ro("active", of_rows(&Batch::active, nb::dtype<std::uint8_t>()))
      .def_prop_ro("indices", of_outputs(&Batch::indices, false))
      .def_prop_ro("seed", of_seeds(&Batch::seed))
      .def_prop_ro("offset", of_seeds(&Batch::offset))
      .def_prop_ro(
          "words",
          [](const View& v) { return per_token(v, v.get().words, v.unsigned_64(), false); })
      .def_prop_ro("out_tokens", of_tokens(&Batch::tokens, kInt))
      .def_prop_ro("out_statuses", of_outputs(&Batch::statuses, true))
      .def_prop_ro("out_support_size", of_outputs(&Batch::support_size, true))
      .def_prop_ro("out_logprob", of_tokens(&Batch::logprob, kFloat))
      .def_prop_ro("out_logprob_filtered", of_tokens(&Batch::logprob_filtered, kFloat))
      .def_prop_ro("out_mask", of_words(&Batch::mask, &Batch::mask_stride, true))
      .def_prop_ro("out_probs", of_values(&Batch::probs, &Batch::probs_stride))
      .def_prop_ro("report_mode",
                   [](const View& v) {
                     return nb::str(to_string(static_cast<LogprobsMode>(v.get().report_mode)));
                   })
      .def_prop_ro("rank_rule",
                   [](const View& v) {
                     return nb::str(to_string(static_cast<RankRule>(v.get().rank_rule)));
                   })
      .def_prop_ro("top_n", read(&Batch::top_n))
      .def_prop_ro("out_report_values", of_tokens(&Batch::report_values, kFloat))
      .def_prop_ro("out_report_ranks", of_tokens(&Batch::report_ranks, kInt))
      .def_prop_ro("out_report_top_ids", of_top(&Batch::report_top_ids, kInt))
      .def_prop_ro("out_report_top_values", of_top(&Batch::report_top_values, kFloat))
      .def_prop_ro("out_report_all", of_values(&Batch::report_all, &Batch::report_all_stride))
      .def_prop_ro(
          "mark_scheme",
          [](const View& v) {
            return harness::to_string(static_cast<harness::MarkScheme>(v.get().mark_scheme));
          })
      .def_prop_ro("mark_window", read(&Batch::mark_window))
      .def_prop_ro("mark_key",
                   [](const View& v) {
                     return v.vector(v.get().mark_key, v.get().rows, v.unsigned_64(), false);
                   })
      .def_prop_ro("mark_output", [](const View& v) {
        const Batch& b = v.get();
        return v.matrix(b.mark_output, b.rows, b.mark_output_size, b.mark_output_size, kInt, false);
      });
}

}  // namespace fairdraw::python
