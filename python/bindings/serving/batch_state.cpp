// Binds BatchState and the CPU's FusedSamplingProcessor for fairdraw/serving.py and
// fairdraw/fused_sampling_processor.py. Results are lists.
#include "fairdraw/batch_state.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fairdraw/fused_sampling_processor.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/serving/batch_fields.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

struct OwnedProcessor {
  FusedSamplingProcessor processor;
  std::int64_t vocab;

  explicit OwnedProcessor(OwnedState& owned)
      : processor(*owned.state), vocab(owned.state->options().vocab) {}
};

/// Calls visit(name, member) for the fields of BatchRequest. The names of the fields are those of
/// the Python dataclass. `visit_bias` handles the field `bias`, which has another form in Python
/// than in C++.
void each_field(auto& r, const auto& visit, const auto& visit_bias) {
  visit("temperature", r.temperature);
  visit("top_k", r.top_k);
  visit("top_p", r.top_p);
  visit("min_p", r.min_p);
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) visit(#name, r.name);
#include "fairdraw/processing_parameters.inc"
  visit("repetition_of_prompt", r.repetition_of_prompt);
  visit("seed", r.seed);
  visit("first_offset", r.first_offset);
  visit("stop_ids", r.stop_ids);
  visit_bias();
  visit("bad_words", r.bad_words);
  visit("allowed_ids", r.allowed_ids);
  visit("forced_tokens", r.forced_tokens);
  visit("dry_breakers", r.dry_breakers);
  visit("prompt", r.prompt);
}

using Biases = std::vector<std::pair<std::int32_t, float>>;

struct Fields {
  BatchRequest request;

  explicit Fields(const Named& given) {
    const auto read = [&given](const char* name, auto& member) {
      member = given.as<std::remove_reference_t<decltype(member)>>(name);
    };
    each_field(request, read, [&] {
      for (const auto& [token, value] : given.as<Biases>("bias")) {
        request.bias.push_back({token, value});
      }
    });
    given.expect_all_read();
  }
};

/// Returns rows in host memory, which the CPU's processor reads.
Rows rows_on_host(Handle logits) {
  Rows rows = rows_of("logits", logits);
  const Place place = place_of(rows.array, 0, nb::none());
  if (place.on_cuda()) {
    throw_value_error(fmt::format("logits is on {}; allowed: the device of the processor, cpu",
                                  device_name(place.device_type, place.device_id)));
  }
  return rows;
}

void step(OwnedProcessor& self, Handle logits, Handle offsets, StepRows which) {
  const Rows rows = rows_on_host(logits);
  with_offsets(offsets, Place(), [&](auto view) {
    run_on_host([&] { return self.processor.step(rows.view, view, which); });
  });
}

void logits_for_sampling(OwnedProcessor& self, Handle logits, Handle processed) {
  const Rows rows = rows_on_host(logits);
  OutputArray keep;
  const FloatRows written = float_rows("processed", processed, rows.view, Place(), keep);
  run_on_host([&] { return self.processor.logits_for_sampling(rows.view, written); });
}

void step_processed(OwnedProcessor& self, Handle processed) {
  const Rows rows = rows_on_host(processed);
  run_on_host([&] { return self.processor.step_processed(rows.view); });
}

}  // namespace

OwnedState::OwnedState(const Named& given) {
  BatchStateOptions options;
  options.vocab = given.as<std::int64_t>("vocab");
  options.capacity = given.as<std::int32_t>("capacity");
  options.max_length = given.as<std::int32_t>("max_length");
  options.max_bias = given.as<std::int32_t>("max_bias");
  options.max_stop_ids = given.as<std::int32_t>("max_stop_ids");
  options.max_bad_words = given.as<std::int32_t>("max_bad_words");
  options.max_bad_word_tokens = given.as<std::int32_t>("max_bad_word_tokens");
  options.max_allowed_ids = given.as<std::int32_t>("max_allowed_ids");
  options.max_forced_tokens = given.as<std::int32_t>("max_forced_tokens");
  options.max_dry_breakers = given.as<std::int32_t>("max_dry_breakers");
  options.history = given.as<HistoryForm>("history");
  options.tie_rule = given.as<TieRule>("tie_rule");
  options.filter_order = given.as<FilterOrder>("filter_apply_order");
  given.expect_all_read();
  raise(BatchState::make(options, state));
}

Ids list_of(View<const std::int32_t> view) { return {view.data, view.data + view.size}; }

Ids numbers_of(View<const RowStatus> statuses) {
  Ids numbers;
  for (std::int64_t i = 0; i < statuses.size; ++i) {
    numbers.push_back(static_cast<std::int32_t>(statuses.data[i]));
  }
  return numbers;
}

std::vector<Ids> lists_of(const TokenLists& lists) {
  std::vector<Ids> tokens;
  for (std::int64_t i = 0; i < lists.lengths.size; ++i) {
    tokens.push_back(list_of({lists.data + lists.begins.data[i], lists.lengths.data[i]}));
  }
  return tokens;
}

InputArray array_of_processor(const char* name, Handle object, const Place& place) {
  InputArray array = input_array(name, object, nullptr);
  const int type = array.device_type();
  const bool on_host = type == nb::device::cpu::value || type == nb::device::cuda_host::value ||
                       type == nb::device::cuda_managed::value;
  if (on_host || (type == place.device_type && array.device_id() == place.device_id)) return array;
  const std::string own =
      place.on_cuda()
          ? fmt::format(" or the processor's, {}", device_name(place.device_type, place.device_id))
          : "";
  throw_value_error(fmt::format("{} is on {}; allowed: host memory{}", name,
                                device_name(type, array.device_id()), own));
}

nb::dict fields_of(const BatchRequest& request) {
  nb::dict fields;
  const auto write = [&fields](const char* name, const auto& member) { fields[name] = member; };
  each_field(request, write, [&] {
    Biases biases;
    for (const TokenBias& entry : request.bias) biases.emplace_back(entry.token, entry.bias);
    fields["bias"] = biases;
  });
  return fields;
}

void bind_batch_state(nb::module_& module) {
  nb::class_<OwnedState>(module, "BatchState")
      .def("__init__",
           [](OwnedState* self, const nb::dict& given) {
             new (self) OwnedState(Named("BatchState", given));
           })
      .def("add",
           [](OwnedState& self, RequestId id, const Fields& fields, std::int32_t slot) {
             raise(self.state->add(id, fields.request, slot));
             return self.state->slot_of(id);
           })
      .def("remove", [](OwnedState& self, RequestId id) { raise(self.state->remove(id)); })
      .def("swap",
           [](OwnedState& self, std::int32_t a, std::int32_t b) { raise(self.state->swap(a, b)); })
      .def("compact",
           [](OwnedState& self) {
             std::vector<std::pair<std::int32_t, std::int32_t>> moves;
             for (const SlotMove move : self.state->compact())
               moves.emplace_back(move.from, move.to);
             return moves;
           })
      .def("evict",
           [](OwnedState& self, RequestId id) {
             RequestSnapshot snapshot;
             raise(self.state->evict(id, snapshot));
             return nb::make_tuple(fields_of(snapshot.request), snapshot.output, snapshot.allowed);
           })
      .def("restore",
           [](OwnedState& self, RequestId id, const Fields& fields, Ids output,
              std::vector<std::uint32_t> allowed, std::int32_t slot) {
             raise(self.state->restore({id, fields.request, std::move(output), std::move(allowed)},
                                       slot));
             return self.state->slot_of(id);
           })
      .def("append",
           [](OwnedState& self, RequestId id, const Ids& tokens) {
             raise(self.state->append(id, tokens.data(), static_cast<std::int64_t>(tokens.size())));
           })
      .def("append_step",
           [](OwnedState& self, const Ids& tokens) {
             raise(self.state->append_step(
                 {tokens.data(), static_cast<std::int64_t>(tokens.size())}));
           })
      .def("size", [](const OwnedState& self) { return self.state->size(); })
      .def("slots", [](const OwnedState& self) { return self.state->slots(); })
      .def("capacity", [](const OwnedState& self) { return self.state->options().capacity; })
      .def("slot_of", [](const OwnedState& self, RequestId id) { return self.state->slot_of(id); })
      .def("is_occupied",
           [](const OwnedState& self, std::int32_t slot) { return self.state->is_occupied(slot); })
      .def("id_at",
           [](const OwnedState& self, std::int32_t slot) { return self.state->id_at(slot); })
      .def("prompt", [](const OwnedState& self,
                        std::int32_t slot) { return list_of(self.state->prompt(slot)); })
      .def("output", [](const OwnedState& self,
                        std::int32_t slot) { return list_of(self.state->output(slot)); })
      .def("offset",
           [](const OwnedState& self, std::int32_t slot) { return self.state->offset(slot); });

  nb::class_<Fields>(module, "BatchRequest")
      .def("__init__", [](Fields* self, const nb::dict& given) {
        new (self) Fields(Named("BatchRequest", given));
      });

  nb::class_<OwnedProcessor>(module, "FusedSamplingProcessor")
      .def(nb::init<OwnedState&>(), nb::keep_alive<1, 2>())
      .def("step", &step, nb::arg("logits").none(), nb::arg("logit_offsets").none(),
           nb::arg("rows"))
      .def("logits_for_sampling", &logits_for_sampling, nb::arg("logits").none(),
           nb::arg("processed"))
      .def("step_processed", &step_processed, nb::arg("processed").none())
      .def("new_tokens",
           [](const OwnedProcessor& self) { return list_of(self.processor.new_tokens()); })
      .def("new_token_counts",
           [](const OwnedProcessor& self) { return list_of(self.processor.new_token_counts()); })
      .def("statuses",
           [](const OwnedProcessor& self) { return numbers_of(self.processor.statuses()); })
      .def("generated_tokens",
           [](const OwnedProcessor& self) { return lists_of(self.processor.generated_tokens()); })
      .def(
          "update_bitmask",
          [](OwnedProcessor& self, Handle packed) {
            const InputArray array = array_of_processor("packed", packed, Place());
            raise(self.processor.update_bitmask(
                bit_rows<const std::uint32_t>("packed", array, self.vocab)));
          },
          nb::arg("packed").none())
      .def("clear_bitmask", [](OwnedProcessor& self) { self.processor.clear_bitmask(); })
      .def("start_async_token_copy",
           [](OwnedProcessor& self) { raise(self.processor.start_async_token_copy()); })
      .def("wait_for_tokens",
           [](const OwnedProcessor& self) { return list_of(self.processor.wait_for_tokens()); });
}

}  // namespace fairdraw::python
